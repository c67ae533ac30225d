"""P16: a directory of YAML to Ready, against parsing it (libyaml) and one durable SQLite commit for each document."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import yaml

from tenantry.adapters.sources.git.url import GitUrl
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.processes.serving import loop_factory
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch

TENANTS = 1000
FILE = 100
"""Documents of each kind to a file."""
GATE = 3.0


def measure(scale: Scale) -> Sequence[Row]:
    count = scale.of(TENANTS)
    source = scale.folder / "source"
    write_source(source, count)
    numbers = itertools.count()
    writes: list[int] = []

    def subject() -> Took:
        gc.collect()  # what the repetition before left is not this one's cost
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            took, written = runner.run(to_ready(scale.folder / f"state-{next(numbers)}", source, count))
        writes.append(written)
        return took

    times = interleaved(subject, lambda: bare(scale.folder / f"bare-{next(numbers)}.db", source), scale.repetitions)
    work = f"embedded: {2 * count:,} YAML documents ({count:,} Tenants, {count:,} Environments) to Ready"
    reference = "libyaml and one durable SQLite commit a document"
    per_object = f"{writes[-1] / (2 * count):.1f}"
    return (row("P16", work, reference, times, "lower", GATE, writes_per_document=per_object),)


def write_source(folder: Path, tenants: int) -> None:
    """A Region, and that many Tenants with an Environment each."""
    folder.mkdir()
    head = {"apiVersion": "tenantry.dev/v1alpha1"}
    _write(folder / "region.yaml", [head | {"kind": "Region", "metadata": {"name": "here"}, "spec": {}}])
    for first in range(0, tenants, FILE):
        numbers = range(first, min(first + FILE, tenants))
        _write(folder / f"tenants-{first}.yaml", [head | _tenant(number) for number in numbers])
        _write(folder / f"environments-{first}.yaml", [head | _environment(number) for number in numbers])


def _tenant(number: int) -> dict[str, object]:
    return {"kind": "Tenant", "metadata": {"name": f"t{number}"}, "spec": {"displayName": f"Tenant {number}"}}


def _environment(number: int) -> dict[str, object]:
    spec = {"displayName": f"Environment {number}", "region": "here", "engine": {"size": "small"}}
    return {"kind": "Environment", "metadata": {"name": "dev", "namespace": f"tenant-t{number}"}, "spec": spec}


def _write(path: Path, documents: list[dict[str, object]]) -> None:
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))


async def to_ready(state: Path, source: Path | GitUrl, count: int) -> tuple[Took, int]:
    """A new platform from its start until all is Ready, and the version of its store then."""
    platform = await Platform.open(state, "http://127.0.0.1:8080")
    platform.attach(source, "default")
    with stopwatch(children=isinstance(source, GitUrl)) as took:
        await platform.start()
        await platform.converged()
    ready = sum(each.ready for kind in ("Tenant", "Environment") for each in platform.state.cache.resources(kind))
    assert ready == 2 * count, f"{ready} of {2 * count} are Ready"
    _, version = await platform.state.store.list("Region")
    await platform.close()
    return took, int(version)


def bare(path: Path, source: Path) -> Took:
    """The floor: libyaml, and one durable commit a document."""
    with stopwatch() as took, closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(
            "CREATE TABLE objects (kind TEXT, namespace TEXT, name TEXT, body BLOB, PRIMARY KEY (kind, namespace, name))"
        )
        for file in sorted(source.iterdir()):
            for document in yaml.load_all(file.read_bytes(), Loader=yaml.CSafeLoader):
                metadata = document["metadata"]
                key = (document["kind"], metadata.get("namespace", ""), metadata["name"])
                database.execute("INSERT INTO objects VALUES (?, ?, ?, ?)", (*key, json.dumps(document)))
    return took
