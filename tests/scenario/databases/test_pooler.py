"""Engines behind PgBouncer in transaction mode: each transaction may have another session of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tenantry.engine.database import Database
from tenantry.engine.service import Engine
from tenantry.engine.sql.server_session import SESSION, is_pooled
from tenantry.model.verdicts import Invalid
from tenantry.packages.build import build
from tests.scenario.data_world import DATA, MANIFEST, engine_with_app, signed_in
from tests.scenario.databases.pooler import SESSIONS, pooling
from tests.scenario.postgres import database_url

pytestmark = pytest.mark.slow
CLIENTS = 12
WIDER = MANIFEST.replace("name: age, type: integer", "name: age, type: bigint").replace("1.0.0", "2.0.0")


@pytest.fixture(scope="module")
def pooler(server: str) -> Iterator[str]:
    with pooling(server) as address:
        yield address


@pytest.fixture
def direct(server: str) -> str:
    return database_url(server)


@pytest.fixture
def url(direct: str, pooler: str) -> str:
    """The same database, through the pooler."""
    return f"postgresql+psycopg://{pooler}/{direct.rpartition('/')[2]}"


@pytest.fixture
async def world(url: str, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_with_app(tmp_path, url) as both:
        yield both


def sleep(connection: sa.Connection) -> None:
    connection.exec_driver_sql("SELECT pg_sleep(60)")


def plain(url: str) -> str:
    return url.replace("+psycopg", "")


def test_a_pooler_is_noticed(url: str, direct: str, tmp_path: Path) -> None:
    for each, pooled in ((url, True), (direct, False)):
        database = Database(tmp_path / "a.db", each)
        with database.reading() as connection:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            assert (is_pooled(connection), driver.prepare_threshold is None) == (pooled, pooled)
        database.close()


def test_the_url_says_that_a_pooler_can_prepare(url: str, tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db", f"{url}?prepare_threshold=7")
    with database.reading() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        assert driver.prepare_threshold == 7
    database.close()
    wrong = Database(tmp_path / "a.db", f"{url}?prepare_threshold=x")
    with pytest.raises(Invalid, match="prepare_threshold must be a whole number"), wrong.reading():
        pass


async def test_rights_of_users_who_share_sessions_never_cross(world: tuple[Engine, str]) -> None:
    expected = {"ed": (200, 201), "rea": (200, 403), "wri": (403, 201), "none": (403, 403)}

    async def use(username: str, number: int) -> set[tuple[int, int]]:
        seen = set()
        async with signed_in(world[1], username) as client:
            for turn in range(8):
                listed, made = await asyncio.gather(
                    client.get(f"{DATA}/contacts?limit=1"),
                    client.post(f"{DATA}/contacts", json={"email": f"{username}.{number}.{turn}@x"}),
                )
                seen.add((listed.status_code, made.status_code))
        return seen

    users = [username for username in expected for _ in range(CLIENTS // 4)]
    seen = await asyncio.gather(*(use(username, number) for number, username in enumerate(users)))
    assert seen == [{expected[username]} for username in users]


async def test_each_transaction_has_the_settings_and_leaves_none(world: tuple[Engine, str], url: str, direct: str) -> None:
    with psycopg.connect(plain(direct)) as fresh:
        before = {name: fresh.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in SESSION}

    async def insert(number: int) -> str:
        async with signed_in(world[1], "ed") as client:
            answer = await client.post(f"{DATA}/contacts", json={"email": f"{number}@x"})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["created"])

    created = await asyncio.gather(*(insert(number) for number in range(2 * SESSIONS)))
    # The server itself is in Tokyo.
    assert all(abs((datetime.now(UTC) - datetime.fromisoformat(each)).total_seconds()) < 600 for each in created)
    held = [psycopg.connect(plain(url)) for _ in range(SESSIONS)]
    try:
        for session in held:  # each in a transaction: so these are all sessions that there are
            session.execute("SELECT 1")
        for session in held:
            after = {name: session.execute("SELECT current_setting(%s)", (name,)).fetchone() for name in SESSION}
            own = {"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"}  # the pooler's affair
            assert {name: value for name, value in after.items() if name not in own} == {
                name: value for name, value in before.items() if name not in own
            }
    finally:
        for session in held:
            session.close()


async def test_a_statement_ends_by_its_deadline(world: tuple[Engine, str]) -> None:
    with pytest.raises(Invalid, match="takes too long"):
        await world[0]._transactions.serve(sleep, 0.3, write=False)
    with pytest.raises(Invalid, match="takes too long"):
        await world[0]._transactions.serve(sleep, 0.3, write=True)
    assert await world[0].apps()


async def test_an_upgrade_leaves_no_lock_behind(world: tuple[Engine, str], direct: str, tmp_path: Path) -> None:
    engine, served = world
    async with signed_in(served, "ed") as editor:
        await editor.post(f"{DATA}/contacts", json={"email": "a@x", "age": 5})
        await engine.publish(wider(tmp_path))
        assert (await editor.get(f"{DATA}/contacts/1")).json()["age"] == "5"
    with psycopg.connect(plain(direct)) as other:
        assert other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


async def test_many_rows_come_in_through_a_pooler(world: tuple[Engine, str]) -> None:
    body = b"\n".join(b'{"email": "%d@x"}' % number for number in range(1000))
    async with signed_in(world[1], "ed") as editor:
        answer = await editor.post(f"{DATA}/contacts", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert answer.status_code == 201, answer.text
        assert len((await editor.get(f"{DATA}/contacts")).json()) == 1000


async def test_without_a_pooler_a_prepared_statement_outlives_an_upgrade_by_another_process(direct: str, tmp_path: Path) -> None:
    async with engine_with_app(tmp_path, direct) as (_, served), signed_in(served, "ed") as editor:
        assert (await editor.post(f"{DATA}/contacts", json={"email": "a@x", "age": 5})).status_code == 201
        for _ in range(6):
            assert (await editor.get(f"{DATA}/contacts/1")).json()["age"] == 5
        other = await Engine.open(tmp_path / "data", database_url=direct)
        await other.publish(wider(tmp_path))
        await other.close()
        answers = await asyncio.gather(*(editor.get(f"{DATA}/contacts/1") for _ in range(6)))
        assert [(each.status_code, each.json()["age"]) for each in answers] == [(200, "5")] * 6


def wider(folder: Path) -> Path:
    """A version whose column `age` is larger."""
    (folder / "wider").mkdir()
    (folder / "wider" / "app.yaml").write_text(WIDER)
    build(folder / "wider", folder / "wider.tapp")
    return folder / "wider.tapp"
