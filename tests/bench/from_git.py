"""From a Git repository: P16, a sync that finds nothing new, and the memory that the source takes.

The repository lies on the same disk (file://); `git fetch` of it is part of what it is measured against. The memory is that of
a process of its own: `python -m tests.bench.from_git URL FOLDER`.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git.source import GitSource
from tenantry.adapters.sources.git.url import GitUrl, parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.processes.serving import loop_factory, tune_collector
from tenantry.kinds.admission import Admission
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.runtime.following.feed import SourceFeed
from tenantry.settings import GitRepositorySettings, Settings
from tests.bench.p16 import TENANTS, bare, to_ready, write_source
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch
from tests.bench.start import resident

READY_GATE, UNCHANGED_GATE, MEMORY_GATE = 3.0, 1.5, 10.0
SYNCS = 10
"""Of one repetition: a single one is too short to be measured."""


def measure(scale: Scale) -> Sequence[Row]:
    count = scale.of(TENANTS)
    work = scale.folder / "git-work"
    write_source(work, count)
    url = _committed(work)
    return (_ready(scale, work, url, count), _unchanged(scale, work, url, count), _memory(scale, work, url))


def _committed(work: Path) -> GitUrl:
    """A repository beside a folder, which holds its files."""
    repository = work.with_suffix(".git")
    _git(work, "init", "--quiet", "--bare", "--initial-branch=main", str(repository))
    inside = (f"--git-dir={repository}", f"--work-tree={work}")
    _git(work, *inside, "add", "--all")
    _git(work, *inside, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--message=all")
    return parse_git_url(f"git+file://{repository}@main")


def _git(folder: Path, *arguments: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env=kept | alone)


def _ready(scale: Scale, work: Path, url: GitUrl, count: int) -> Row:
    numbers = itertools.count()

    def subject() -> Took:
        gc.collect()  # what the repetition before left is not this one's cost
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            took, _ = runner.run(to_ready(scale.folder / f"git-state-{next(numbers)}", url, count))
        return took

    def reference() -> Took:
        clone = scale.folder / f"git-clone-{next(numbers)}"
        clone.mkdir()
        with stopwatch(children=True) as took:
            _git(clone, "init", "--quiet", "--bare")
            _git(clone, "fetch", "--quiet", "--depth=1", url.url, "main")
        committed = bare(scale.folder / f"git-bare-{next(numbers)}.db", work)
        return Took(took.wall + committed.wall, took.cpu + committed.cpu)

    times = interleaved(subject, reference, scale.repetitions)
    what = f"embedded, from Git: {2 * count:,} YAML documents ({count:,} Tenants, {count:,} Environments) to Ready"
    return row("P16", what, "`git fetch`, libyaml, one durable SQLite commit a document", times, "lower", READY_GATE)


def _unchanged(scale: Scale, work: Path, url: GitUrl, count: int) -> Row:
    clone = scale.folder / "git-clone"
    clone.mkdir()
    _git(clone, "init", "--quiet", "--bare")
    _git(clone, "fetch", "--quiet", url.url, "+main:main")

    def reference() -> Took:
        with stopwatch(children=True) as took:
            for _ in range(SYNCS):
                _git(clone, "fetch", "--quiet", url.url, "+main:main")
                tree_hash(work)
        return took

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        platform, feed = runner.run(_following(scale.folder / "git-state", url))
        times = interleaved(lambda: runner.run(_syncs(feed)), reference, scale.repetitions)
        runner.run(platform.close())
    work_told = f"{SYNCS} syncs of {2 * count:,} documents of which none has changed"
    return row("git", work_told, f"{SYNCS} times `git fetch` and a SHA-256 of all files", times, "lower", UNCHANGED_GATE)


async def _following(state: Path, url: GitUrl) -> tuple[Platform, SourceFeed]:
    settings = Settings(state=state, git=GitRepositorySettings(interval=timedelta(hours=1)))
    platform = await Platform.open(state, "http://127.0.0.1:8080", settings=settings)
    feed = platform.attach(url, "default")
    await platform.start()
    await platform.converged()
    return platform, feed


async def _syncs(feed: SourceFeed) -> Took:
    with stopwatch(children=True) as took:
        for _ in range(SYNCS):
            done = await feed.sync()
            assert not (done.created or done.changed or done.pruned or done.problems), done
    return took


def tree_hash(folder: Path) -> str:
    """One hash of all files of a tree."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.yaml")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _memory(scale: Scale, work: Path, url: GitUrl) -> Row:
    """Of documents as small as they come, of which each costs most for its size."""
    empty = scale.folder / "git-empty"
    empty.mkdir()
    (empty / "region.yaml").write_bytes((work / "region.yaml").read_bytes())
    none = _committed(empty)
    size = sum(file.stat().st_size for file in work.glob("*.yaml"))
    caches = (scale.folder / f"git-cache-{number}" for number in itertools.count())
    pairs = [(_resident_of(url, next(caches)), _resident_of(none, next(caches))) for _ in range(scale.repetitions)]
    ratios = sorted((full - without) / size for full, without in pairs)
    grown = median(full - without for full, without in pairs)
    figures = (f"{grown / 2**20:.1f} MiB", f"{size / 2**20:.1f} MiB")
    work_told, reference = "memory of a Git source of as many documents", "the size of its YAML"
    return Row("git", work_told, reference, median(ratios), (ratios[0], ratios[-1]), "lower", MEMORY_GATE, figures)


def _resident_of(url: GitUrl, folder: Path) -> int:
    command = [sys.executable, "-m", "tests.bench.from_git", str(url), str(folder)]
    return int(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


async def _read_here(url: GitUrl, folder: Path) -> int:
    """Bytes of memory of this process, with a source that has been read."""
    admission = Admission()
    blobs = FolderBlobs(folder / "blobs", inspect)
    source = GitSource(
        url, folder, lambda each: admission.admit(each, None), PackageFiles(blobs, build), lambda: datetime.now(UTC)
    )
    tree = await source.read()
    assert tree.documents, tree
    gc.collect()
    return resident()


if __name__ == "__main__":
    tune_collector()  # as `up` does
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(runner.run(_read_here(parse_git_url(sys.argv[1]), Path(sys.argv[2]))))
