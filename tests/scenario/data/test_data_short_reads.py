"""Small reads of rows without a thread: the same answers, and never an old right."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tenantry.engine.data.row_access import RowAccess
from tenantry.engine.database import Database
from tenantry.engine.service import Engine
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.facts import Password
from tests.scenario.data.plain_rows import PLAIN, ROWS
from tests.scenario.data_world import DATA, PASSWORD, engine_with_app, no_threads, signed_in

pytestmark = pytest.mark.usefixtures("unhurried_short_reads")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_with_app(tmp_path, manifest=PLAIN, seeds={"plain": ROWS}) as world:
        yield world


@pytest.fixture
async def editor(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "ed") as editor:
        yield editor


async def in_a_thread(client: httpx.AsyncClient, path: str, **parameters: Any) -> httpx.Response:
    with patch.object(RowAccess, "run_now", side_effect=NotShort):
        return await client.get(path, params=parameters)


@pytest.mark.slow
@pytest.mark.parametrize("select", ["*", "note,code", "flag,big,moment,day,token,code"])
async def test_a_list_and_a_row_are_the_same_without_a_thread(editor: httpx.AsyncClient, select: str) -> None:
    path, asked = f"{DATA}/plain", {"select": select, "limit": "50"}
    by_thread, one = await in_a_thread(editor, path, **asked), await in_a_thread(editor, f"{path}/003", select=select)
    with no_threads():
        listed, row = await editor.get(path, params=asked), await editor.get(f"{path}/003", params={"select": select})
    assert listed.json() == by_thread.json() and len(listed.json()) == len(ROWS)
    assert [list(each) for each in listed.json()] == [list(each) for each in by_thread.json()]
    assert (row.content, row.headers["etag"]) == (one.content, one.headers["etag"])
    if select == "*":
        assert listed.json() == ROWS


@pytest.mark.parametrize("limit", [1, len(ROWS) - 1, len(ROWS), len(ROWS) + 1])
async def test_the_next_page_begins_behind_the_last_row(editor: httpx.AsyncClient, limit: int) -> None:
    path = f"{DATA}/plain"
    by_thread = await in_a_thread(editor, path, limit=limit)
    with no_threads():
        first = await editor.get(path, params={"limit": limit})
    assert first.headers.get("link") == by_thread.headers.get("link")
    assert (first.headers.get("link") is None) == (limit >= len(ROWS))
    assert first.json() == ROWS[:limit]


async def test_every_type_of_column_is_read_by_key_without_a_thread(editor: httpx.AsyncClient) -> None:
    values = {"big": "5", "price": "1.50", "ratio": 0.1, "day": "2026-02-03", "moment": "2026-02-03T04:05:06Z"}
    given = values | {"extra": {"a": [1, None]}, "picture": "AQI=", "note": "n", "order": 3, "region": "eu", "code": "a"}
    assert (await editor.post(f"{DATA}/kinds", json=given)).status_code == 201
    by_thread = await in_a_thread(editor, f"{DATA}/kinds/eu,a")
    with no_threads():
        row = await editor.get(f"{DATA}/kinds/eu,a")
    assert (row.content, row.headers["etag"]) == (by_thread.content, by_thread.headers["etag"])
    assert (await editor.get(f"{DATA}/kinds", params={"limit": 10})).json() == [row.json()]


@pytest.mark.slow
async def test_a_list_that_cannot_be_short_is_not_tried_again_and_again(editor: httpx.AsyncClient) -> None:
    """Lists of `kinds` have doubles, which SQLite does not write; filters, orders and pages need a search."""
    row = {"region": "eu", "code": "a", "big": "1", "price": "1", "ratio": 0.1, "note": "n", "order": 3}
    assert (await editor.post(f"{DATA}/kinds", json=row)).status_code == 201
    asked = ("kinds?limit=10", "plain?limit=3&n=gt.1", "plain?limit=3&order=n", "plain?n=gt.1", "plain?limit=3&continue=x")
    for path in (*asked, "kinds/eu,a"):  # compiles the statements
        await editor.get(f"{DATA}/{path}")
    begun: list[Any] = []
    short_read = Database.short_read

    def noted(self: Database, tenant: str, about: Any, work: Any, joined: Any = None) -> Any:
        def begins(read: Any) -> Any:
            begun.append(about)
            return work(read)

        return short_read(self, tenant, about, begins, joined)

    with patch.object(Database, "short_read", noted):
        for path in asked:
            await editor.get(f"{DATA}/{path}")
        assert not begun
        with no_threads():
            assert (await editor.get(f"{DATA}/kinds/eu,a")).status_code == 200
        assert len(begun) == 1


@pytest.mark.slow
async def test_rows_that_are_large_are_read_in_a_thread(editor: httpx.AsyncClient) -> None:
    large = {"code": "large", "note": "y" * 100_000}
    assert (await editor.post(f"{DATA}/plain", json=large)).status_code == 201
    for _ in range(3):
        assert (await editor.get(f"{DATA}/plain/large")).json()["note"] == large["note"]
        listed = (await editor.get(f"{DATA}/plain", params={"limit": 50})).json()
        assert {row["code"]: row["note"] for row in listed}["large"] == large["note"]


@pytest.mark.slow
async def test_no_answer_comes_from_an_old_right(world: tuple[Engine, str], tmp_path: Path) -> None:
    """Another process takes the right away: the next request of this one is refused."""
    other = await Engine.open(tmp_path / "data")
    path = f"{DATA}/contacts"

    async def asked(client: httpx.AsyncClient) -> set[int]:
        return {(await client.get(path, params={"limit": 5})).status_code, (await client.get(f"{path}/1")).status_code}

    async with signed_in(world[1], "rea") as reader, signed_in(world[1], "ed") as editor:
        assert (await editor.post(path, json={"email": "a@b"})).status_code == 201
        assert await asked(reader) == await asked(editor) == {200}
        with no_threads():
            assert await asked(reader) == {200}
        await other.set_roles("rea", [])
        assert await asked(reader) == {403}
        await other.set_roles("rea", [("crm", "reader")])
        assert await asked(reader) == {200}
        await other.set_password("rea", Password("another password"))
        assert await asked(reader) == {401}
        await other.delete_identity("ed")
        assert await asked(editor) == {401}
    async with signed_in(world[1], "wri") as writer:
        assert await asked(writer) == {403}
        await other.uninstall("crm")
        assert await asked(writer) == {404}
    await other.close()


@pytest.mark.slow
async def test_requests_of_a_basic_user_and_refusals_are_the_same(world: tuple[Engine, str]) -> None:
    async with httpx.AsyncClient(base_url=world[1], auth=("ed", PASSWORD)) as basic:
        for _ in range(3):
            assert (await basic.get(f"{DATA}/accounts", params={"limit": 3})).json() == []
            assert (await basic.get(f"{DATA}/accounts/7")).status_code == 404
            assert (await basic.get(f"{DATA}/accounts/x")).status_code == 400
            assert (await basic.get(f"{DATA}/nothing", params={"limit": 3})).status_code == 404
    async with httpx.AsyncClient(base_url=world[1], auth=("ed", "wrong")) as stranger:
        assert (await stranger.get(f"{DATA}/accounts/7")).status_code == 401


async def test_data_that_has_vanished_is_missed(world: tuple[Engine, str], tmp_path: Path, editor: httpx.AsyncClient) -> None:
    path = f"{DATA}/accounts"
    assert (await editor.get(path, params={"limit": 3})).status_code == 200
    (tmp_path / "data" / "engine.db").rename(tmp_path / "away.db")
    answer = await editor.get(path, params={"limit": 3})
    assert answer.status_code == 503 and "is gone" in answer.json()["error"]
