"""A backup restored on the other kind of database: SQLite or PostgreSQL, each value as it was, and nothing half made."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa

from tenantry.engine.access import Served
from tenantry.engine.database import Database
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.verdicts import Invalid
from tenantry.packages.build import build
from tenantry.rest.uploads import Uploads
from tests.scenario.archives import back_up, restore
from tests.scenario.data_world import DATA, HASHED, MANIFEST, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.scenario.serving import serving
from tests.support.column_values import TEXTS, VALUES
from tests.support.engine_archives import DATABASES, everything, files

pytestmark = pytest.mark.slow


def kinds() -> Iterator[dict[str, Any]]:
    """Rows in which each value comes up, and NULL in each column."""
    for number, row in enumerate(zip_longest(*VALUES.values())):
        yield {"region": "all", "code": str(number), **dict(zip(VALUES, row, strict=True))}
    yield from ({"region": "keys", "code": text} for text in TEXTS)


@pytest.fixture
def url_of(server: str) -> Callable[[str], str | None]:
    """Makes a database of a kind: its URL, None for SQLite in the folder."""
    return lambda kind: database_url(server) if kind == "postgresql" else None


async def read_all(ed: httpx.AsyncClient) -> dict[str, list[str]]:
    found = {}
    for table in ("accounts", "contacts", "kinds"):
        answer = await ed.get(f"{DATA}/{table}", headers={"Accept": "application/x-ndjson"})
        assert answer.status_code == 200, answer.text
        found[table] = sorted(answer.text.splitlines())
    return found


async def written(folder: Path, url: str | None) -> dict[str, list[str]]:
    """Make an engine whose tables hold every value. Returns its rows as the data API has them."""
    async with engine_with_app(folder, url) as (_, address), signed_in(address, "ed") as ed:
        for row in kinds():
            answer = await ed.post(f"{DATA}/kinds", json=row)
            assert answer.status_code == 201, (row, answer.text)
        for number in range(1, 4):
            assert (await ed.post(f"{DATA}/accounts", json={"name": f"no {number}"})).status_code == 201
        assert (await ed.post(f"{DATA}/contacts", json={"email": "a@x", "account_id": 2, "active": False})).status_code == 201
        assert (await ed.delete(f"{DATA}/accounts/3")).status_code == 204
        return await read_all(ed)


async def checked(folder: Path, url: str | None, rows: dict[str, list[str]]) -> None:
    """Serve the engine and see that it is the one that was."""
    engine = await Engine.open(folder, database_url=url)
    served = Served(engine, folder / "token-key.jwk")
    (folder / "incoming").mkdir()
    app = engine_app(lambda request: served, Uploads(folder / "incoming"))
    async with serving(app) as address, signed_in(address, "ed") as ed:
        assert await read_all(ed) == rows
        assert await engine.steps("crm", "1.0.0") == (), "an install would change nothing"
        added = await ed.post(f"{DATA}/accounts", json={"name": "next"})
        assert added.json()["id"] == 4, "a key is not given twice, also if its row is gone"
        refused = await ed.post(f"{DATA}/contacts", json={"email": "b@x", "account_id": 99})
        assert (refused.status_code, "account_id" in refused.text) == (400, True), refused.text
        assert (await ed.post(f"{DATA}/accounts", json={"name": "next"})).status_code == 400
        assert (await ed.post(f"{DATA}/contacts", json={"email": "no"})).status_code == 400
        assert (await ed.delete(f"{DATA}/accounts/4")).status_code == 204
        made = await ed.post(f"{DATA}/kinds", json={"region": "defaults", "code": "1"})
        assert len(made.json()["token"]) == 36
    await engine.close()


@pytest.mark.parametrize("kind", DATABASES)
async def test_an_engine_is_restored_on_the_other_kind_as_it_was(
    url_of: Callable[[str], str | None], tmp_path: Path, kind: str
) -> None:
    url, across = url_of(kind), url_of(next(one for one in DATABASES if one != kind))
    rows = await written(tmp_path, url)
    old = await asyncio.to_thread(everything, tmp_path / "data", url)
    await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "across", across)
    assert files(tmp_path / "across") == files(tmp_path / "data")
    assert (tmp_path / "across" / "engine.db").exists() == (across is None)
    await asyncio.to_thread(back_up, tmp_path / "across", across, tmp_path / "across.tar")
    again = url_of(kind)
    await asyncio.to_thread(restore, tmp_path / "across.tar", tmp_path / "again", again)
    assert await asyncio.to_thread(everything, tmp_path / "again", again) == old, "there and back it is the same"
    await checked(tmp_path / "across", across, rows)
    await checked(tmp_path / "again", again, rows)


async def test_decimals_that_sqlite_would_round_are_refused(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    manifest = MANIFEST.replace("precision: 10", "precision: 20")
    async with engine_with_app(tmp_path, url, manifest):
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    with pytest.raises(Invalid, match=r"tables\.kinds\.price: sqlite keeps decimals exactly up to 15 digits, not 20"):
        await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", None)
    assert not (tmp_path / "again" / "engine.db").exists()


@pytest.mark.parametrize("kind", DATABASES)
async def test_the_data_of_an_app_that_is_no_longer_installed_comes_along(
    url_of: Callable[[str], str | None], tmp_path: Path, kind: str
) -> None:
    url, across = url_of(kind), url_of(next(one for one in DATABASES if one != kind))
    async with engine_with_app(tmp_path, url) as (engine, address):
        async with signed_in(address, "ed") as ed:
            assert (await ed.post(f"{DATA}/accounts", json={"name": "kept"})).status_code == 201
        await engine.uninstall("crm")
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", across)
    engine = await Engine.open(tmp_path / "again", database_url=across)
    assert [(app.id, app.version, app.persisted) for app in await engine.apps()] == [("crm", "", True)]
    await engine.install("crm", "1.0.0")
    await engine.close()
    with closing_database(tmp_path / "again", across) as connection:
        assert connection.execute(sa.text("SELECT name FROM crm__accounts")).scalars().all() == ["kept"]


@pytest.mark.parametrize("kind", DATABASES)
async def test_tables_of_no_stored_version_are_refused_by_name(
    url_of: Callable[[str], str | None], tmp_path: Path, kind: str
) -> None:
    url, across = url_of(kind), url_of(next(one for one in DATABASES if one != kind))
    async with engine_with_app(tmp_path, url):
        pass
    with closing_database(tmp_path / "data", url) as connection:
        connection.execute(sa.text("ALTER TABLE crm__accounts ADD COLUMN by_hand TEXT"))
    await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    with pytest.raises(Invalid, match="the tables of crm are those of no version that is stored"):
        await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", across)


async def test_an_earlier_version_that_made_the_tables_is_found(server: str, tmp_path: Path) -> None:
    """Uploaded later, another version does not stand for tables that it did not make."""
    async with engine_with_app(tmp_path) as (engine, _):
        newer = newer_package(tmp_path, "age, type: integer", "years, type: text")
        await engine.upload(newer)
        await engine.add_identity("late", HASHED, [("crm", "editor")])
        await asyncio.to_thread(back_up, tmp_path / "data", None, tmp_path / "engine.tar")
    url = database_url(server)
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", url)
    with closing_database(tmp_path / "again", url) as connection:
        columns = [column["name"] for column in sa.inspect(connection).get_columns("crm__contacts")]
    assert "age" in columns


def newer_package(folder: Path, old: str, new: str) -> Path:
    """Version 2.0.0 of the app, in which one text is another."""
    (folder / "newer").mkdir()
    manifest = MANIFEST.replace("version: 1.0.0", "version: 2.0.0").replace(old, new)
    (folder / "newer" / "app.yaml").write_text(manifest)
    build(folder / "newer", folder / "newer.tapp")
    return folder / "newer.tapp"


def closing_database(folder: Path, url: str | None) -> Any:
    return Database(folder / "engine.db", url).writing()


async def test_the_version_whose_types_the_tables_have_is_taken(server: str, tmp_path: Path) -> None:
    """The app is not installed, and a later version has the same columns with other types: values would be cut."""
    async with engine_with_app(tmp_path) as (engine, address):
        async with signed_in(address, "ed") as ed:
            row = {"region": "a", "code": "b", "moment": "2026-02-03T04:05:06.5Z", "price": "0.10"}
            assert (await ed.post(f"{DATA}/kinds", json=row)).status_code == 201
        newer = newer_package(tmp_path, "moment, type: datetime", "moment, type: date")
        await engine.upload(newer)
        await engine.uninstall("crm")
        await asyncio.to_thread(back_up, tmp_path / "data", None, tmp_path / "engine.tar")
    url = database_url(server)
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", url)
    with closing_database(tmp_path / "again", url) as connection:
        assert str(connection.execute(sa.text("SELECT moment FROM crm__kinds")).scalar()) == "2026-02-03 04:05:06.500000"


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_table_that_was_made_anew_while_it_was_empty_comes_along(
    url_of: Callable[[str], str | None], tmp_path: Path, kind: str
) -> None:
    """SQLite notes 0 as the last key of such a table, which PostgreSQL takes for none."""
    url, across = url_of(kind), url_of(next(one for one in DATABASES if one != kind))
    async with engine_with_app(tmp_path, url) as (engine, _):
        newer = newer_package(tmp_path, "length: 40", "length: 41")
        await engine.publish(newer)
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", across)
    with closing_database(tmp_path / "again", across) as connection:
        insert = sa.text("INSERT INTO crm__accounts (name) VALUES ('first') RETURNING id")
        assert connection.execute(insert).scalar() == 1


async def test_bytes_stay_bytes_where_the_server_spells_them_in_another_way(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET bytea_output = 'escape'".encode())
    async with engine_with_app(tmp_path, url) as (_, address), signed_in(address, "ed") as ed:
        row = {"region": "a", "code": "b", "picture": base64.b64encode(b"abcdef").decode()}
        assert (await ed.post(f"{DATA}/kinds", json=row)).status_code == 201
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar")
    await asyncio.to_thread(restore, tmp_path / "engine.tar", tmp_path / "again", None)
    with closing_database(tmp_path / "again", None) as connection:
        assert connection.execute(sa.text("SELECT picture FROM crm__kinds")).scalar() == b"abcdef"
