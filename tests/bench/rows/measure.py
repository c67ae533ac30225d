"""P27 to P29, P31: reading and writing rows over HTTP, against PocketBase and a bare application with the same SQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.row import Row, Scale, Times, Took, row
from tests.bench.rows.programs import pocketbase as pocketbase_program
from tests.bench.rows.programs import wrk
from tests.bench.rows.server import CONNECTIONS, Server
from tests.bench.rows.subjects import bare_on_postgresql, bare_on_sqlite, plain_url, pocketbase, tenantry
from tests.scenario.postgres import running

SECONDS = 3.0


@dataclass(frozen=True)
class Against:
    """A reference and its gate; None: the ratio is only reported."""

    server: Server
    about: str
    gate: float | None = None


def p27(scale: Scale) -> Sequence[Row]:
    """A list of 100 rows."""
    return _reads(scale, "P27", "list", "list of 100 rows", (0.7, 0.5))


def p28(scale: Scale) -> Sequence[Row]:
    """One row."""
    return _reads(scale, "P28", "one", "one row by key", (0.5, 0.4))


def p29(scale: Scale) -> Sequence[Row]:
    """An insert that is durable when it is answered."""
    wrk(), pocketbase_program()
    with ExitStack() as stack:
        subject = stack.enter_context(tenantry(scale.folder / "P29-tenantry"))
        full = stack.enter_context(pocketbase(scale.folder / "P29-full", "FULL"))
        normal = stack.enter_context(pocketbase(scale.folder / "P29-normal", "NORMAL"))
        bare = stack.enter_context(bare_on_sqlite(scale.folder / "P29-bare"))
        references = (
            Against(full, "PocketBase with synchronous=FULL", 0.5),
            Against(normal, "PocketBase with its own setting, synchronous=NORMAL"),
            Against(bare, "the same SQL behind a bare ASGI application"),
        )
        return compared(scale, "P29", "insert", "durable insert of one row", subject, references)


def p31(scale: Scale) -> Sequence[Row]:
    """The same on PostgreSQL, against the same SQL by psycopg."""
    wrk()
    works = {"list": "list of 100 rows", "one": "one row by key", "insert": "durable insert of one row"}
    with ExitStack() as stack:
        server = stack.enter_context(running(durable=True))
        subject = stack.enter_context(tenantry(scale.folder / "P31-tenantry", plain_url(server)))
        bare = stack.enter_context(bare_on_postgresql(server, scale.folder / "P31-bare"))
        against = (Against(bare, "psycopg with the same SQL behind a bare ASGI application", 0.4),)
        return [
            each
            for request, work in works.items()
            for each in compared(scale, "P31", request, f"PostgreSQL: {work}, signed in, role checked", subject, against)
        ]


def _reads(scale: Scale, id_: str, request: str, work: str, gates: tuple[float, float]) -> Sequence[Row]:
    wrk(), pocketbase_program()
    with ExitStack() as stack:
        subject = stack.enter_context(tenantry(scale.folder / f"{id_}-tenantry"))
        other = stack.enter_context(pocketbase(scale.folder / f"{id_}-pocketbase", "NORMAL"))
        bare = stack.enter_context(bare_on_sqlite(scale.folder / f"{id_}-bare"))
        references = (
            Against(other, "PocketBase 0.30", gates[0]),
            Against(bare, "the same SQL behind a bare ASGI application", gates[1]),
        )
        return compared(scale, id_, request, f"{work}, signed in, role checked", subject, references)


def compared(scale: Scale, id_: str, request: str, work: str, subject: Server, references: Sequence[Against]) -> Sequence[Row]:
    """A row for each reference. All servers have their turns in one run."""
    servers = [subject, *(each.server for each in references)]
    taken: dict[str, list[Took]] = {each.name: [] for each in servers}
    seconds = max(1.0, SECONDS * scale.share)
    for turn in range(scale.repetitions + 1):
        for server in servers[:: 1 if turn % 2 else -1]:
            took = server.load(request, seconds)
            if turn:  # the first warms up
                taken[server.name].append(took)
    return tuple(row_of(id_, work, request, subject, each, taken) for each in references)


def row_of(id_: str, work: str, request: str, subject: Server, against: Against, taken: dict[str, list[Took]]) -> Row:
    """The row of the times that both servers took."""
    other = against.server
    beside: dict[str, Any] = {
        "p99": f"{median(subject.p99_ms[request]):.1f} ms of {median(other.p99_ms[request]):.1f} ms",
        "memory": f"{subject.memory >> 20} MiB of {other.memory >> 20} MiB",
        "connections": str(CONNECTIONS),
    }
    times = Times(taken[subject.name], taken[other.name])
    return row(id_, work, against.about, times, "higher", against.gate, unit="requests/s", **beside)
