"""An install whose process dies at a chosen statement, by SIGKILL: what the child does, and what is looked at afterwards."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import sqlalchemy as sa
from sqlalchemy import event

from tenantry.engine.database import AHEAD, Database
from tenantry.engine.migration import indexes
from tenantry.engine.service import Engine
from tests.scenario.postgres import database_url
from tests.unit.engine.archives import write_package
from tests.unit.engine.schemas import column, dump, portrait, reference, table

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.crash.mortal_installs"])
EVENTS = ("before_cursor_execute", "after_cursor_execute", "commit")
PATIENCE_S = 60.0

_ONE = [{"id": 1}]
_NAMES = [{"id": number, "name": f"name {number}", "fax": str(number)} for number in range(1, 51)]
_GENERATED = {"name": "id", "type": "integer", "generated": True}
_FIRST = [
    {"name": "people", "primaryKey": ["id"], "columns": [_GENERATED, column("name"), column("fax")], "unique": [["name"]]},
    table("pets", column("owner", "integer"), foreignKeys=[reference("owner", "people", onDelete="cascade")]),
    table("old", column("name")),
    table("notes", column("body")),
]
_SECOND = [
    {
        "name": "people",
        "primaryKey": ["id"],
        "columns": [_GENERATED, column("called", "string", renamedFrom="name", nullable=False), column("town", default="x")],
        "indexes": [{"columns": ["town"]}],
        "checks": [{"name": "named", "expression": "called <> ''"}],
    },
    table("beasts", column("owner", "bigint"), foreignKeys=[reference("owner", "new")], renamedFrom="pets"),
    table("notes", column("says", renamedFrom="body"), indexes=[{"columns": ["says"]}]),
    {"name": "new", "primaryKey": ["id"], "columns": [{"name": "id", "type": "bigint"}, column("name")]},
]
VERSIONS: dict[str, tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]] = {
    "1": (
        _FIRST,
        {"people": _NAMES, "pets": [{"id": 1, "owner": 1}, {"id": 2, "owner": 2}], "old": _ONE, "notes": _ONE},
    ),
    "2": (_SECOND, {"new": [{"id": 1, "name": "seed"}, {"id": 2, "name": "seed"}]}),
}
CHANGES: dict[str, tuple[str, str]] = {"a first install": ("", "1"), "an upgrade": ("1", "2"), "a downgrade": ("12", "1")}
"""The versions that were installed one after the other, and the one to come."""


@dataclass(frozen=True)
class EngineState:
    """An engine's folder and its database, SQLite's in the folder where the URL is None."""

    data: Path
    url: str | None

    def portrait(self) -> list[str]:
        """Everything that is in the database, the installed version included."""
        if self.url is None:
            # The order of constraints in a rebuilt table's text means nothing.
            parts = (part.strip(" ,\t)") for line in dump(self.data / "engine.db") for part in line.splitlines())
            return sorted(part.removeprefix("CONSTRAINT ") for part in parts)
        database = Database(self.data / "engine.db", self.url)
        with closing(database), database.reading() as connection:
            return portrait(connection)

    def copy(self, to: Path) -> EngineState:
        """Another with the same content."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.data, to)
        if self.url is None:
            return EngineState(to, None)
        server, name = self.url.removeprefix("postgresql+psycopg://").split("/")
        copy = f"{name}_{next(_NUMBERS)}"
        with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {copy} TEMPLATE {name}".encode())
        return EngineState(to, f"postgresql+psycopg://{server}/{copy}")

    def remove(self) -> None:
        """Its database on a server; a thousand of them are gigabytes."""
        if self.url is not None:
            server, name = self.url.removeprefix("postgresql+psycopg://").split("/")
            with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


_NUMBERS = itertools.count()


async def prepared(folder: Path, server: str | None, installed: str) -> EngineState:
    """An engine that stores both versions, and in which those were installed one after the other."""
    state = EngineState(folder / "template", database_url(server) if server else None)
    engine = await Engine.open(state.data, database_url=state.url)
    for version, (tables, seeds) in VERSIONS.items():
        lines = {f"seed/{name}.ndjson": _lines(rows) for name, rows in seeds.items()}
        await engine.upload(write_package(folder / f"{version}.tapp", lines, version=version, tables=tables))
    for each in installed:
        await engine.install("crm", each, allow_drops=True)
    await engine.close()
    return state


def _lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return "\n".join(str(row).replace("'", '"') for row in rows).encode()


def as_installed(portrait: list[str]) -> list[str]:
    """Without indexes that were built ahead: they belong to no version, and refuse nothing."""
    return [line for line in portrait if not line.startswith((f"('CREATE INDEX {AHEAD}", f'("CREATE INDEX {AHEAD}'))]


async def install(state: EngineState, version: str) -> list[str]:
    """Install the version. Return the portrait of the state after it."""
    engine = await Engine.open(state.data, database_url=state.url)
    with patch.object(indexes, "LEAST_BYTES", 0):
        await engine.install("crm", version, allow_drops=True)
    await engine.close()
    return await asyncio.to_thread(state.portrait)


def doomed(state: EngineState, version: str, at: int) -> int:
    """Installs in a process that kills itself at that event of its database; how many there were, when it outlived them.

    0: has died.
    """
    # The server of forks does not know pytest's paths, and passes over what it cannot import.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    child = _PROCESSES.Process(target=_run, args=(state, version, at, theirs))
    child.start()
    theirs.close()
    child.join(PATIENCE_S)
    try:
        if child.exitcode == -signal.SIGKILL:
            return 0
        assert child.exitcode == 0, f"the child ended with {child.exitcode}"
        count: int = ours.recv()
        return count
    finally:
        child.kill()
        ours.close()


def _run(state: EngineState, version: str, at: int, told: Connection) -> None:
    passed = itertools.count(1)
    count = 0

    def pass_by(*_: object) -> None:
        nonlocal count
        count = next(passed)
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def work() -> None:
        indexes.LEAST_BYTES = 0
        engine = await Engine.open(state.data, database_url=state.url)
        for name in EVENTS:
            event.listen(sa.Engine, name, pass_by)
        event.listen(sa.Pool, "close", pass_by)  # after the commit
        await engine.install("crm", version, allow_drops=True)

    asyncio.run(work())
    told.send(count)
