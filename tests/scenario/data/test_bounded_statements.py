"""The database work of one request ends: by its deadline, when its caller leaves, and by its size."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tenantry.engine.database import Locked
from tenantry.engine.service import Engine
from tenantry.model.verdicts import Invalid
from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.support.endless import forever
from tests.support.patience import DEADLINE_S


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with engine_with_app(tmp_path, url) as world:
        yield world


async def test_a_statement_ends_by_its_deadline(world: tuple[Engine, str]) -> None:
    engine, _ = world
    with pytest.raises(Invalid, match="takes too long"):
        await engine._transactions.serve(forever, 0.2, write=False)
    assert await engine.apps()


async def test_work_of_many_short_statements_ends_by_its_deadline(world: tuple[Engine, str]) -> None:
    engine, _ = world
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT max(i) FROM n"

    def work(connection: sa.Connection) -> None:
        while True:
            connection.exec_driver_sql(count)

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(Invalid, match="takes too long"):
            await engine._transactions.serve(work, 0.2, write=False)
    assert await engine.apps()


async def test_a_statement_ends_when_its_caller_leaves(world: tuple[Engine, str]) -> None:
    engine, _ = world
    began = asyncio.Event()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def work(connection: sa.Connection) -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            forever(connection)
        finally:
            loop.call_soon_threadsafe(ended.set)

    call = asyncio.ensure_future(engine._transactions.serve(work, 600, write=False))
    async with asyncio.timeout(DEADLINE_S):
        await began.wait()
        call.cancel()
        await ended.wait()


@pytest.mark.slow
async def test_a_held_lock_is_answered_503_and_holds_up_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenantry.engine.data.row_access.QUERY_S", 2.0)
    async with engine_with_app(tmp_path) as (_, served), signed_in(served, "ed") as editor:
        with closing(sqlite3.connect(tmp_path / "data" / "engine.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writes = [asyncio.ensure_future(editor.post(f"{DATA}/accounts", json={"name": f"{n}"})) for n in range(20)]
            assert (await editor.get(f"{DATA}/accounts")).json() == []
            answers = await asyncio.gather(*writes)
            other.execute("ROLLBACK")
        assert {answer.status_code for answer in answers} == {503}
        assert "holds a lock" in answers[0].json()["error"] and answers[0].headers["retry-after"] == "1"
        assert (await editor.post(f"{DATA}/accounts", json={"name": "after"})).status_code == 201


async def test_a_lock_that_is_let_go_in_time_is_waited_for(world: tuple[Engine, str]) -> None:
    engine, _ = world
    tries = 0

    def work(_: object) -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Locked("database is locked")
        return "done"

    assert await engine._transactions.run(work, 10) == "done"


async def test_a_request_that_nobody_waits_for_is_given_up(world: tuple[Engine, str]) -> None:
    engine, served = world
    began, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    real = engine._transactions.serve

    async def slow(work: object, seconds: float, write: bool, **_: object) -> object:
        began.set()
        try:
            return await real(forever, 600, write)
        finally:
            loop.call_soon(ended.set)

    async with signed_in(served, "ed") as editor:
        engine._transactions.serve = slow  # type: ignore[method-assign, assignment]
        asking = asyncio.create_task(editor.get(f"{DATA}/accounts"))
        async with asyncio.timeout(DEADLINE_S):
            await began.wait()
            asking.cancel()
            await ended.wait()
