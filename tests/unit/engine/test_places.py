"""The connections that the event loop uses of a server, where that server has no more to give."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from tenantry.engine.sql.quick.places import Places
from tenantry.engine.sql.server_session import ServerSession
from tenantry.engine.sql.short_reads import NotShort

REFUSED = psycopg.OperationalError("too many connections")


class FullServer:
    """A pool, and a lane in which opening takes until the test says how it ends."""

    tenant = "acme"

    def __init__(self) -> None:
        self.idle: list[Any] = []
        self.opening: list[Future[Any]] = []

    def server_pool(self) -> tuple[Any, Any]:
        return self, SimpleNamespace(loaded_dbapi=psycopg)

    def submit(self, _work: object, *, bulk: bool) -> Future[Any]:
        self.opening.append(Future())
        return self.opening[-1]

    def open_new(self) -> None:
        raise AssertionError("the lane ends it")

    def take_open(self) -> tuple[Any, None] | None:
        return (self.idle.pop(), None) if self.idle else None

    def put_back(self, record: Any, _seen: None) -> None:
        self.idle.append(record)


@pytest.fixture
def server() -> FullServer:
    return FullServer()


@pytest.fixture
def places(server: FullServer) -> Places:
    return Places(server, server)  # type: ignore[arg-type]


def connection() -> Any:
    wire = SimpleNamespace(broken=False, attach=lambda: None, detach=lambda: None)
    return SimpleNamespace(
        info={"wire": wire}, record_info={"session": ServerSession(False, (15, 6), "public", "READ COMMITTED")}
    )


async def refused(server: FullServer) -> None:
    """Let the server refuse each connection that is asked for by now."""
    for opening in server.opening:
        opening.set_exception(REFUSED)
    server.opening.clear()
    await asyncio.sleep(0)


async def test_those_whom_a_full_server_refuses_use_the_connection_that_came_back_meanwhile(
    server: FullServer, places: Places
) -> None:
    server.idle.append(connection())
    first = await places.take()
    others = [asyncio.create_task(places.take()) for _ in range(5)]
    await asyncio.sleep(0)
    assert len(server.opening) == 5
    places.give(first)
    await refused(server)
    for _ in others:
        done, waiting = await asyncio.wait(others, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        (served,) = done
        places.give(served.result())
        others = list(waiting)
    assert len(server.idle) == 1


async def test_without_any_connection_threads_take_the_work(server: FullServer, places: Places) -> None:
    takes = [asyncio.create_task(places.take()) for _ in range(3)]
    await asyncio.sleep(0)
    await refused(server)
    results = await asyncio.gather(*takes, return_exceptions=True)
    assert [type(result) for result in results] == [NotShort] * 3
