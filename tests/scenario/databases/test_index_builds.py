"""Indexes of tables with rows on PostgreSQL are built while others write, and nothing of a build stays that ended too early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tenantry.engine.logical.catalog import tables
from tenantry.engine.logical.session import session as logical_session
from tenantry.engine.migration import indexes
from tenantry.engine.service import Engine
from tenantry.engine.transactions import LockPolicy
from tenantry.model.verdicts import Halt, Invalid
from tests.scenario.postgres import database_url
from tests.support.other_sessions import WRITE, at_work, engine_with_versions, portrait_of, session
from tests.support.patience import BUSY
from tests.support.waiting import eventually
from tests.unit.engine.schemas import column, table

pytestmark = pytest.mark.slow
NAME, FAX = column("name"), column("fax")
VERSIONS = {
    "1": table("people", NAME, FAX),
    "indexed": table("people", NAME, FAX, indexes=[{"columns": ["name"]}, {"columns": ["fax", "name"]}]),
    "renamed": table("folk", column("called", renamedFrom="name"), FAX, renamedFrom="people", indexes=[{"columns": ["called"]}]),
    "impossible": table("people", column("name", nullable=False), FAX, indexes=[{"columns": ["name"]}]),
    "unique": table("people", NAME, FAX, unique=[["fax"]]),
}
ROWS = 200_000
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1"
INDEXES = """
SELECT t.relname, c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_class t ON t.oid = i.indrelid WHERE t.relname IN ('crm__people', 'crm__folk') AND NOT i.indisprimary
"""


@pytest.fixture
def url(server: str) -> str:
    return database_url(server)


@pytest.fixture
async def engine(url: str, tmp_path: Path) -> AsyncIterator[Engine]:
    """Version 1 is installed, with rows; all are stored."""
    async with engine_with_versions(url, tmp_path, {version: [described] for version, described in VERSIONS.items()}) as engine:
        with session(url) as connection:
            rows = f"SELECT -i, md5(i::text), i::text FROM generate_series(1, {ROWS}) i"
            connection.execute(f"INSERT INTO crm__people (id, name, fax) {rows}".encode())
        yield engine


def found(url: str) -> dict[str, bool]:
    """Each index, and whether it is whole; one that was built ahead is called so."""
    with session(url) as connection:
        rows = connection.execute(INDEXES.encode()).fetchall()
    return {"ahead" if name.startswith("_tenantry_ahead_") else name[:-9]: valid for _, name, valid in rows}


async def test_writers_go_on_while_an_index_is_built(engine: Engine, url: str) -> None:
    number = "INSERT INTO crm__people (id, name) SELECT coalesce(max(id), 0) + 1, 'Ada' FROM crm__people"
    with session(url) as earlier:
        earlier.execute(SNAPSHOT)  # the build waits for it: it can be looked at in between
        async with at_work(url, number, "SELECT count(*) FROM crm__people WHERE id > 0") as took:
            installing = asyncio.create_task(engine.install("crm", "indexed"))
            await eventually(lambda: found(url) == {"ahead": False})
            done = len(took)
            await eventually(lambda: len(took) > done + 100)
            assert found(url) == {"ahead": False} and not installing.done()
            earlier.rollback()
            await installing
    assert found(url) == {"ix_crm__people_name": True, "ix_crm__people_fax_name": True}
    assert await engine.steps("crm", "indexed") == ()
    assert max(took) < 2 * BUSY
    with session(url) as connection:
        connection.execute("SET enable_seqscan = off")
        assert connection.execute("SELECT count(*) > 0 FROM crm__people WHERE name = 'Ada'").fetchone() == (True,)


async def test_a_build_that_was_cut_short_is_made_again(engine: Engine, url: str) -> None:
    before = portrait_of(engine)
    with session(url) as earlier, session(url, autocommit=True) as other:
        earlier.execute(SNAPSHOT)
        installing = asyncio.create_task(engine.install("crm", "indexed"))
        await eventually(lambda: found(url) == {"ahead": False})
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONC%'")
        with pytest.raises(Halt):
            await installing
        assert found(url) == {"ahead": False}
        assert [line for line in portrait_of(engine) if "_tenantry_ahead_" not in line] == before
        other.execute(WRITE)
    await engine.install("crm", "indexed")
    assert found(url) == {"ix_crm__people_name": True, "ix_crm__people_fax_name": True}


async def test_what_is_left_of_a_build_goes_with_the_next_install(engine: Engine, url: str) -> None:
    with session(url, autocommit=True) as killed:
        killed.execute("CREATE INDEX _tenantry_ahead_0 ON crm__people (name)")
    assert await engine.steps("crm", "1") == (), "it is a part of no version"
    with closing(logical_session(url).gen) as opened:
        (people,) = [each for each in tables(next(opened)).tables if each.name == "crm__people"]
        assert people.indexes == (), "and of no backup"
    await engine.install("crm", "1")
    assert found(url) == {}


async def test_a_build_that_waits_says_for_whom(engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "PATIENCE_S", 0.5)
    monkeypatch.setattr("tenantry.engine.installing.FOR_TABLES", LockPolicy(0.1, 0.1, 0.2))
    with session(url) as earlier:
        earlier.execute(SNAPSHOT)
        pid = earlier.info.backend_pid
        with pytest.raises(Halt) as refused:
            await engine.install("crm", "indexed")
    told = f"an index of table crm__people waits for session {pid} of tests (reports), idle in transaction"
    assert told in refused.value.verdict.message
    with session(url, autocommit=True) as another:
        free = "SELECT pg_try_advisory_lock(hashtextextended('tenantry migration', 0))"
        await eventually(lambda: another.execute(free.encode()).fetchone() == (True,))
    await engine.install("crm", "indexed")


async def test_indexes_follow_a_table_and_its_columns_to_new_names(engine: Engine, url: str) -> None:
    await engine.install("crm", "renamed")
    assert found(url) == {"ix_crm__folk_called": True}


async def test_an_index_of_a_renamed_table_is_not_built_again(engine: Engine, url: str) -> None:
    await engine.install("crm", "indexed")
    with session(url) as connection:
        oid = "SELECT min(c.oid::bigint) FROM pg_class c WHERE c.relname LIKE '%ix_crm__%' AND c.relname NOT LIKE '%fax%'"
        before = connection.execute(oid).fetchone()
        await engine.install("crm", "renamed")
        connection.rollback()
        assert connection.execute(oid).fetchone() == before
    assert found(url) == {"ix_crm__folk_called": True}


async def test_nothing_is_built_for_an_install_that_is_refused(engine: Engine, url: str) -> None:
    with session(url, autocommit=True) as other:
        other.execute("INSERT INTO crm__people (id) VALUES (1)")
    with pytest.raises(Invalid, match="do not fit"):
        await engine.install("crm", "impossible")
    assert found(url) == {}


async def test_rows_that_come_before_the_locks_are_listed_too(engine: Engine, url: str) -> None:
    with session(url) as reader, session(url, autocommit=True) as writer:
        reader.execute("SELECT count(*) FROM crm__people")
        installing = asyncio.create_task(engine.install("crm", "unique"))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'crm__people'::regclass"
        await eventually(lambda: writer.execute(waiting.encode()).fetchone() != (0,))
        writer.execute("INSERT INTO crm__people (id, fax) VALUES (1, 'same'), (2, 'same')")
        reader.rollback()
        with pytest.raises(Invalid, match=r"do not fit: makes people \(fax\) unique \(impossible, 2 rows\)"):
            await installing
    assert (await engine.apps())[0].version == "1"


async def test_no_key_is_enforced_before_its_version_is_installed(engine: Engine, url: str) -> None:
    """A unique index refuses rows from the moment at which its build begins: it is made in the transaction."""
    with session(url) as reader:
        reader.execute("SELECT count(*) FROM crm__people")
        installing = asyncio.create_task(engine.install("crm", "unique"))
        async with at_work(url, "SELECT 1 FROM crm__people LIMIT 1") as took:
            await eventually(lambda: len(took) > 20)
        assert found(url) == {}
        reader.rollback()
        await installing
