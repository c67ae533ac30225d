"""An engine that is as it was left is opened by one read: counted in locks, syncs and round trips, not in time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tenantry.adapters.local.data_loss import losses
from tenantry.adapters.local.data_loss.losses import loss_in
from tenantry.engine import database as database_module
from tenantry.engine import records
from tenantry.engine.database import Database
from tenantry.engine.opening.first_look import first_question, seen
from tenantry.engine.service import Engine
from tenantry.engine.sql import files
from tenantry.engine.sql.driver import ask
from tenantry.engine.sql.files import FILE, made_mark
from tenantry.model.facts import Password
from tenantry.model.verdicts import Halt
from tests.scenario.postgres import database_url
from tests.support.other_sessions import session
from tests.support.round_trips import RoundTrips, counted
from tests.unit.engine.archives import CONTACTS, write_package

ADMIN = Password(clear="the admin's password", fingerprint="1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "engine"


async def left(data: Path, url: str | None = None, owner: str = "a") -> None:
    """An engine that was used, and closed."""
    engine = await Engine.open(data, owner=owner, database_url=url)
    await engine.set_admin_password(ADMIN)
    await engine.publish(write_package(data.parent / "crm.tapp", tables=[CONTACTS]))
    await engine.close()


@asynccontextmanager
async def opened(data: Path, url: str | None = None) -> AsyncIterator[Engine]:
    engine = await Engine.open(data, owner="a", database_url=url)
    yield engine
    await engine.close()


async def test_a_file_that_another_writes_to_is_opened_at_once(data: Path) -> None:
    await left(data)
    with closing(sqlite3.connect(data / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with opened(data) as engine:
            assert [app.version for app in await engine.apps()] == ["1.0.0"]


async def test_a_file_is_opened_without_a_sync_and_without_a_change(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await left(data)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    before = (data / FILE).stat()
    async with opened(data) as engine:
        await engine.apps()
    after = (data / FILE).stat()
    assert (synced, before.st_mtime_ns, before.st_size) == ([], after.st_mtime_ns, after.st_size)


async def without_a_table(data: Path) -> None:
    _change(data, f"DROP TABLE {records.TOLD.name}")


async def without_its_mark(data: Path) -> None:
    made_mark(data / FILE).unlink()


async def of_the_release_before(data: Path) -> None:
    _change(data, f"DROP TABLE {records.OWNER.name}")


async def with_times_of_two_forms(data: Path) -> None:
    _change(data, "PRAGMA user_version = 0")


async def with_a_leftover(data: Path) -> None:
    (data / "packages" / f"{'0' * 64}.tapp").write_bytes(b"left")


def _change(data: Path, statement: str) -> None:
    with closing(sqlite3.connect(data / FILE)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    "change", [without_a_table, without_its_mark, of_the_release_before, with_times_of_two_forms, with_a_leftover]
)
async def test_what_is_missing_is_made_and_what_is_left_over_goes(data: Path, change: Callable[[Path], Awaitable[None]]) -> None:
    await left(data)
    packages = sorted((data / "packages").iterdir())
    await change(data)
    async with opened(data):
        pass
    assert sorted((data / "packages").iterdir()) == packages
    assert made_mark(data / FILE).exists()
    with Database(data / FILE).reading() as connection:
        question = first_question("sqlite")
        ask(connection, question)
        look = seen(question.answer or ())
    assert (look.whole, look.mark, len(look.stored), len(look.installed)) == (True, "a", 1, 1)


async def test_a_table_of_another_program_in_place_of_one_of_ours_is_refused(data: Path) -> None:
    await left(data)
    _change(data, f"DROP TABLE {records.TOLD.name}")
    _change(data, f"CREATE TABLE {records.TOLD.name} (app TEXT, version TEXT, words TEXT)")
    with pytest.raises(Halt, match="of another program"):
        async with opened(data):
            pass


async def test_a_file_that_vanished_is_missed_and_no_empty_one_takes_its_place(data: Path) -> None:
    await left(data)
    (data / FILE).unlink()
    with pytest.raises(Halt) as halt:
        async with opened(data) as engine:
            await engine.set_admin_password(Password(clear="another password", fingerprint="2"))
    assert halt.value.verdict.reason == "DataMissing"
    assert not (data / FILE).exists()


def read(folder: Path) -> None:
    with closing(Database(folder / FILE)) as database, database.reading():
        pass


LOOKS: dict[str, Callable[[Path], object]] = {"a connection": read, "the deployer": loss_in}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_first_write_that_ends_during_a_look_is_no_loss(
    data: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], object]
) -> None:
    """The file was not there, and its mark is."""

    def made_meanwhile(file: Path) -> Path:
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode=WAL")
        mark = made_mark(file)
        mark.touch()
        return mark

    data.mkdir()
    for module in (files, losses, database_module):
        monkeypatch.setattr(module, "made_mark", made_meanwhile)
    assert look(data) is None


@asynccontextmanager
async def behind_a_door(url: str) -> AsyncIterator[tuple[str, RoundTrips]]:
    """The URL of the same database through a door that counts."""
    where = sa.make_url(url)
    assert where.host is not None and where.port is not None
    async with counted(where.host, where.port) as (port, trips):
        yield where.set(host="127.0.0.1", port=port).render_as_string(hide_password=False), trips


@pytest.mark.slow
async def test_an_engine_on_a_server_is_opened_with_one_connection_and_four_round_trips(server: str, data: Path) -> None:
    url = database_url(server)
    await left(data, url)
    async with behind_a_door(url) as (counting, trips), opened(data, counting) as engine:
        # Two open the connection of a server that trusts us: the question for TLS, and the start.
        assert (trips.connections, trips.trips) == (1, 4)
        assert [app.version for app in await engine.apps()] == ["1.0.0"]


@pytest.mark.slow
async def test_an_engine_on_a_server_is_opened_while_another_makes_tables(server: str, data: Path) -> None:
    url = database_url(server)
    await left(data, url)
    with session(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('tenantry records', 0))")
        async with opened(data, url) as engine:
            assert [app.version for app in await engine.apps()] == ["1.0.0"]


@pytest.mark.slow
async def test_a_database_on_a_server_that_was_emptied_is_missed(server: str, data: Path) -> None:
    url = database_url(server)
    await left(data, url)
    with session(url) as other:
        other.execute("DROP SCHEMA public CASCADE")
        other.execute("CREATE SCHEMA public")
    with pytest.raises(Halt) as halt:
        async with opened(data, url):
            pass
    assert halt.value.verdict.reason == "DataMissing"
