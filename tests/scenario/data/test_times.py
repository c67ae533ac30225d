"""A time has one stored form, whichever way it came in, so that a row is found by the key that the database gave it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from structlog.testing import capture_logs

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.engine.sql.files import FILE, ID_FILE
from tenantry.packages.build import build
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.scenario.serving import serving

APP = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
version: 1.0.0
tables:
  - name: events
    primaryKey: [at]
    columns:
      - {name: at, type: datetime, default: now}
      - {name: n, type: integer}
  - name: marks
    primaryKey: [i]
    columns:
      - {name: i, type: integer}
      - {name: made, type: datetime, default: now}
      - {name: day, type: date, default: now}
      - {name: said, type: string, length: 40, default: "DEFAULT CURRENT_TIMESTAMP"}
    unique: [[made, i]]
  - name: followers
    primaryKey: [id]
    columns: [{name: id, type: integer, generated: true}, {name: of, type: datetime}]
    foreignKeys: [{columns: [of], references: events, to: [at]}]
roles:
  editor: {events: [read, write], marks: [read, write], followers: [read, write]}
"""
LATER = APP.replace("1.0.0", "2.0.0").replace(
    "{name: day, type: date, default: now}", "{name: day, type: datetime}\n      - {name: seen, type: datetime, default: now}"
)
"""Converts dates to times, and gives rows that exist a default."""
OLD = Path(__file__).parent / "times_of_825c776.sql"
"""The database of an engine of commit 825c776 with APP and rows that came by POST, as SQL."""
OLD_OWNER = "efcbb60b-e084-44de-ba15-9dd14aeab708"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def editor(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with engine_with_app(tmp_path, url, APP) as (_, served), signed_in(served, "ed") as client:
        yield client


async def test_a_row_is_reached_by_the_time_that_its_default_gave(editor: httpx.AsyncClient) -> None:
    at = (await _made(editor, "events", {"n": 10}))["at"]
    assert (await editor.get(f"{DATA}/events/{at}")).json() == {"at": at, "n": 10}
    assert (await editor.get(f"{DATA}/events", params={"at": f"eq.{at}"})).json() == [{"at": at, "n": 10}]
    assert (await editor.patch(f"{DATA}/events/{at}", json={"n": 11})).json() == {"at": at, "n": 11}
    assert (await editor.delete(f"{DATA}/events/{at}")).status_code == 204


async def test_a_time_that_a_default_gave_is_taken(editor: httpx.AsyncClient) -> None:
    at = (await _made(editor, "events", {"n": 10}))["at"]
    assert (await editor.post(f"{DATA}/events", json={"at": at})).status_code == 400
    assert (await editor.post(f"{DATA}/followers", json={"of": at})).status_code == 201


async def test_the_next_column_orders_equal_times(editor: httpx.AsyncClient) -> None:
    first = await _made(editor, "marks", {"i": 2})
    for number in (3, 1):
        await _made(editor, "marks", {"i": number, "made": first["made"]})
    listed = (await editor.get(f"{DATA}/marks", params={"order": "made.desc,i.asc"})).json()
    assert [row["i"] for row in listed] == [1, 2, 3]


@pytest.mark.slow
async def test_sqlite_keeps_every_time_in_one_form(tmp_path: Path) -> None:
    seeds: dict[str, list[dict[str, Any]]] = {"marks": [{"i": 1, "made": "2026-01-31T12:00:00Z"}, {"i": 2}]}
    async with engine_with_app(tmp_path, None, APP, seeds) as (engine, served), signed_in(served, "ed") as editor:
        await _made(editor, "marks", {"i": 3})
        await _made(editor, "marks", {"i": 4, "made": "2026-01-31T13:00:00+01:00"})
        rows = [{"i": 5, "made": "2026-01-31T12:00:00.5"}, {"i": 6}]
        assert (await editor.post(f"{DATA}/marks", json=rows)).status_code == 201
        assert (await editor.patch(f"{DATA}/marks/2", json={"made": "2026-01-31"})).status_code == 200
        await engine.publish(_package(tmp_path, LATER), allow_drops=True)
        for row in (await editor.get(f"{DATA}/marks")).json():
            assert row["seen"] is not None
    assert {len(text) for text in _texts(tmp_path / "data" / FILE, "marks", "made", "day", "seen")} == {26}


@pytest.mark.slow
async def test_an_old_database_is_brought_to_the_one_form(tmp_path: Path) -> None:
    data = _old_engine(tmp_path)
    with capture_logs() as logs:
        engine = await Engine.open(data)
    assert await engine.preview(_package(tmp_path, APP.replace("1.0.0", "1.0.1"))) == ()
    await engine.publish(tmp_path / "later.tapp")
    (tmp_path / "incoming").mkdir()
    served = Served(engine, data / "token-key.jwk")
    async with (
        serving(engine_app(lambda request: served, Uploads(tmp_path / "incoming"))) as url,
        signed_in(url, "ed") as editor,
    ):
        events = (await editor.get(f"{DATA}/events")).json()
        assert [row["n"] for row in events] == [12, 11, 10]
        # Two rows had one key. The one that the default stamped gives way, within its second.
        assert [row["at"] for row in events[1:]] == ["2026-11-27T06:07:37Z", "2026-11-27T06:07:37.000001Z"]
        for row in events:
            assert (await editor.get(f"{DATA}/events/{row['at']}")).json() == row
        listed = (await editor.get(f"{DATA}/marks", params={"order": "made.desc,i.asc"})).json()
        assert [row["i"] for row in listed] == [2, 1, 3, 0]
        new = await _made(editor, "marks", {"i": 9})
        assert new["said"] == "DEFAULT CURRENT_TIMESTAMP"
    await engine.close()
    assert {
        len(text) for table, column in (("events", "at"), ("marks", "made")) for text in _texts(data / FILE, table, column)
    } == {26}
    assert not logs


async def test_a_row_that_a_check_holds_back_is_left_and_logged(tmp_path: Path) -> None:
    data = _old_engine(tmp_path)
    with sqlite3.connect(data / FILE) as connection:
        connection.execute("CREATE TABLE crm__short (at DATETIME CHECK (length(at) = 19))")
        connection.execute("INSERT INTO crm__short VALUES ('2026-01-31 12:00:00')")
    connection.close()
    with capture_logs() as logs:
        await (await Engine.open(data)).close()
    assert _texts(data / FILE, "short", "at") == ["2026-01-31 12:00:00"]
    (warning,) = logs
    assert (warning["table"], warning["column"], warning["times"]) == ("crm__short", "at", 1)


async def test_a_database_is_brought_to_the_one_form_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _old_engine(tmp_path)
    await (await Engine.open(data)).close()
    async with engine_with_app(tmp_path / "new", None, APP):
        pass
    monkeypatch.setattr("tenantry.engine.installing.unify", None)
    for each in (data, tmp_path / "new" / "data"):
        await (await Engine.open(each)).close()


def _old_engine(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir()
    (data / ID_FILE).write_bytes(orjson.dumps({"id": OLD_OWNER, "claimed": False}))
    connection = sqlite3.connect(data / FILE)
    connection.executescript(OLD.read_text())
    connection.close()
    return data


def _package(folder: Path, manifest: str) -> Path:
    source = folder / "later"
    source.mkdir()
    (source / "app.yaml").write_text(manifest)
    build(source, folder / "later.tapp")
    return folder / "later.tapp"


def _texts(file: Path, table: str, *columns: str) -> list[str]:
    connection = sqlite3.connect(file)
    found = [text for column in columns for (text,) in connection.execute(f"SELECT {column} FROM crm__{table}") if text]
    connection.close()
    return found


async def _made(editor: httpx.AsyncClient, table: str, row: dict[str, Any]) -> dict[str, Any]:
    answer = await editor.post(f"{DATA}/{table}", json=row)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made
