"""Installs on PostgreSQL beside others who use the same tables: nobody waits long, and an install that cannot go on says why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.engine.database import Locked
from tenantry.engine.migration import locks
from tenantry.engine.service import Engine
from tenantry.engine.transactions import LockPolicy
from tenantry.model.verdicts import Transient
from tests.scenario.postgres import database_url
from tests.support.other_sessions import PATIENCE_S, READ, WRITE, at_work, engine_with_versions, portrait_of, session
from tests.support.patience import BUSY
from tests.support.waiting import eventually
from tests.unit.engine.schemas import column, reference, table

pytestmark = pytest.mark.slow
PEOPLE = table("people", column("name"), column("fax"))
PETS = table("pets", column("owner", "integer"))
VERSIONS = {
    "1": [PEOPLE, PETS],
    "without fax": [table("people", column("name")), PETS],
    "with a reference": [PEOPLE, {**PETS, "foreignKeys": [reference("owner", "people")]}],
    "short": [table("people", column("name", "string", length=20), column("fax")), PETS],
    "long": [table("people", column("name", "string", length=40), column("fax")), PETS],
}


@pytest.fixture
def url(server: str) -> str:
    return database_url(server)


@pytest.fixture
async def engine(url: str, tmp_path: Path) -> AsyncIterator[Engine]:
    """Version 1 is installed, all are stored."""
    async with engine_with_versions(url, tmp_path, VERSIONS) as engine:
        yield engine


def waits(url: str, table_: str = "crm__people") -> bool:
    """Return True if anybody waits for a lock of the table."""
    with session(url) as connection:
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        return connection.execute(query, (table_,)).fetchone() != (0,)


async def test_an_install_that_waits_lets_readers_and_writers_go_on(
    engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Any] = []
    real = locks.keep_others_out

    def tried(*given: Any) -> None:
        tries.append(given)
        real(*given)

    monkeypatch.setattr("tenantry.engine.migration.run.keep_others_out", tried)
    with session(url) as reader:
        reader.execute(READ)
        async with at_work(url, WRITE, READ) as took:
            installing = asyncio.create_task(engine.install("crm", "without-fax"))
            await eventually(lambda: len(tries) >= 3)
            assert not installing.done()
            reader.rollback()
            await installing
            done = len(took)
            await eventually(lambda: len(took) > done)
    assert max(took) < locks.WAIT_S + 1.5 * BUSY, "longer than one wait, and what the machine needs"
    assert (await engine.apps())[0].version == "without-fax"


async def test_a_table_that_stays_locked_is_told_with_its_holder(
    engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantry.engine.installing.FOR_TABLES", LockPolicy(0.1, 0.1, 3.0))
    with session(url) as before:
        old = portrait_of(engine)
        before.execute(READ)
        with pytest.raises(Locked) as refused:
            await engine.install("crm", "without-fax")
        pid = before.info.backend_pid
    verdict = refused.value.verdict
    assert isinstance(verdict, Transient)
    assert f"table crm__people is used by session {pid} of tests (reports), idle in transaction for " in verdict.message
    assert f"pg_terminate_backend({pid}) ends it; try again" in verdict.message
    assert portrait_of(engine) == old
    await engine.install("crm", "without-fax")


async def test_all_locks_together_are_waited_for_no_longer_than_one(engine: Engine, url: str) -> None:
    """The last table is held: those before it are let go in the same time."""
    await engine.install("crm", "with-a-reference")
    with session(url) as reader:
        reader.execute("SELECT count(*) FROM crm__pets")
        installing = asyncio.create_task(engine.install("crm", "without-fax"))
        await eventually(lambda: waits(url, "crm__pets"))
        with session(url) as other:
            began = time.monotonic()
            other.execute(READ)
            assert time.monotonic() - began < locks.WAIT_S + 1.5 * BUSY
        reader.rollback()
        await installing


async def test_readers_do_not_wait_for_a_new_foreign_key(engine: Engine, url: str) -> None:
    with session(url) as reader:
        reader.execute("SELECT count(*) FROM crm__pets, crm__people")
        async with asyncio.timeout(PATIENCE_S):
            await engine.install("crm", "with-a-reference")


async def test_a_text_gets_more_room_without_a_look_at_its_rows(engine: Engine, url: str) -> None:
    files: list[object] = []
    for version in ("short", "long", "1"):
        await engine.install("crm", version)
        with session(url) as other:
            files += other.execute("SELECT pg_relation_filenode('crm__people')").fetchall()
    assert len(set(files)) == 1, "the table is not written anew"


async def test_a_refusal_locks_nothing(engine: Engine, url: str) -> None:
    with session(url, autocommit=True) as other:
        other.execute("INSERT INTO crm__people (id, fax) VALUES (1, '12')")
    with session(url) as reader:
        reader.execute(READ)
        with pytest.raises(Exception, match="drops are not allowed"):
            await engine.install("crm", "without-fax")


async def test_an_install_waits_for_a_backup_outside_of_its_thread(engine: Engine, url: str) -> None:
    with session(url, autocommit=True) as backup:
        backup.execute("SELECT pg_advisory_lock(hashtextextended('tenantry migration', 0))")
        installing = asyncio.create_task(engine.install("crm", "without-fax"))
        with session(url) as connection:
            await eventually(lambda: connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() != (0,))
            await eventually(lambda: connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,))
        assert not installing.done()
    await installing
