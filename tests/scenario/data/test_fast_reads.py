"""Frequent reads of rows are answered before the framework: with the same status, headers and bytes as after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tenantry.console.http.origins import SANDBOX
from tenantry.engine.data.row_access import RowAccess
from tenantry.engine.quota import EngineQuota, Limits
from tenantry.engine.sql.short_reads import NotShort
from tenantry.engine.transactions import Transactions
from tenantry.model.facts import Password
from tenantry.rest.fairness.rates import Rates
from tests.scenario.data.fast_world import DATA, ORIGIN, WAYS, World, world_of
from tests.scenario.data.plain_rows import ROWS
from tests.scenario.postgres import database_url

pytestmark = pytest.mark.usefixtures("unhurried_short_reads")


@pytest.fixture(params=WAYS)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=WAYS)
async def on_server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(request.param, tmp_path, database_url(request.getfixturevalue("server"))) as made:
        yield made


FAST = [
    f"GET {DATA}/plain?limit=100",
    f"GET {DATA}/plain?limit=3",
    f"GET {DATA}/plain?limit=3&select=note,code",
    f"GET {DATA}/plain?limit=100&select=code,extra",
    f"GET {DATA}/plain?select=%2A&limit={len(ROWS)}",
    f"GET {DATA}/plain?limit={len(ROWS) - 1}",
    f"GET {DATA}/plain/003",
    f"GET {DATA}/plain/none",
    f"GET {DATA}/plain/00%34",
    f"GET {DATA}/plain/003?select=n,code",
    f"GET {DATA}/contacts?limit=5",
]
OTHERS = [
    f"GET {DATA}/plain",
    f"GET {DATA}/plain?limit=0",
    f"GET {DATA}/plain?limit=101",
    f"GET {DATA}/plain?limit=3&limit=4",
    f"GET {DATA}/plain?limit=3&n=gt.1",
    f"GET {DATA}/plain?limit=3&order=n.desc",
    f"GET {DATA}/plain?limit=3&continue=x",
    f"GET {DATA}/plain?limit=3&select=nothing",
    f"GET {DATA}/plain?limit=3&select=note,contacts(email)",
    f"GET {DATA}/plain?limit=3&{'x' * 600}=1",
    f"GET {DATA}/plain/gone",
    f"GET {DATA}/plain/0,3",
    f"GET {DATA}/plain/%FF",
    f"GET {DATA}/plain/003?select=nothing",
    f"GET {DATA}/plain/003?unknown=1",
    f"GET {DATA}/plain/003?select=contacts(email)",
    f"GET {DATA}/plain/",
    f"GET {DATA}/plain/003/more",
    f"GET {DATA}/contacts/x",
    f"GET {DATA}/kinds?limit=3",
    f"GET {DATA}/nothing?limit=3",
    f"GET {DATA}/nothing/1",
    "GET /api/v1/data/other/plain/003",
    "GET /api/v1/data//plain",
    f"GET {DATA}/openapi.json",
    f"HEAD {DATA}/plain/003",
    f"OPTIONS {DATA}/plain/003",
    f"DELETE {DATA}/plain/gone",
]
HEADERS: list[tuple[dict[str, str], bool, bool]] = [
    ({"accept": "*/*"}, True, True),
    ({"accept": "application/json, text/plain, */*"}, True, True),
    ({"accept": "text/csv"}, False, True),
    ({"accept": "application/x-ndjson"}, False, True),
    ({"prefer": "count=exact"}, False, True),
    ({"origin": ORIGIN}, True, True),
    ({"origin": "https://evil.example.com"}, True, True),
    ({"host": "127.0.0.1:8080"}, True, True),
    ({"host": "localhost:8080"}, True, True),
    ({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, False, False),
    ({"authorization": "Bearer x.y.z"}, False, False),
    ({"authorization": "Basic ZWQ6bG9uZyBlbm91Z2g="}, False, False),
    ({"cookie": "session=1"}, True, True),
]


@pytest.mark.slow
async def test_frequent_reads_are_answered_alike_before_the_framework_and_all_others_after_it(world: World) -> None:
    for asked in FAST:
        await world.same(asked)  # compiles a statement
    assert {asked: await world.same(asked) for asked in FAST} == dict.fromkeys(FAST, (200, True))
    found = {asked: (await world.same(asked))[1] for asked in OTHERS}
    assert not [asked for asked, fast in found.items() if fast]


@pytest.mark.slow
async def test_headers_change_both_ways_alike(world: World) -> None:
    for headers, listed, one in HEADERS:
        found = [(await world.same(f"GET {DATA}/plain{rest}", **headers))[1] for rest in ("?limit=3", "/003")]
        await world.same(f"GET {DATA}/plain?limit=3", **headers)
        assert (found[1], (await world.same(f"GET {DATA}/plain?limit=3", **headers))[1]) == (one, listed), headers


async def test_a_tag_that_the_client_has_is_answered_with_304(world: World) -> None:
    _, headers, _ = await world.ask(f"GET {DATA}/plain/003")
    tag = dict(headers)[b"etag"].decode()
    for wanted, status in ((tag, 304), (f"W/{tag}", 304), (f'"x", {tag}', 304), ("*", 304), ('"x"', 200), ("", 200)):
        assert await world.same(f"GET {DATA}/plain/003", if_none_match=wanted) == (status, True)


async def test_rights_are_those_of_the_moment(world: World) -> None:
    """Each right is taken away while the caller is known."""
    rows = [f"GET {DATA}/plain?limit=3", f"GET {DATA}/plain/003"]

    async def statuses(user: str) -> set[int]:
        return {(await world.same(asked, user))[0] for asked in rows}

    assert await statuses("ed") == {200}
    assert await statuses("rea") == await statuses("none") == {403}
    assert await statuses("") == {401}
    await world.engine.set_roles("ed", [])
    assert await statuses("ed") == {403}
    await world.engine.set_roles("ed", [("crm", "editor")])
    assert await statuses("ed") == {200}
    await world.engine.set_password("ed", Password("another password"))
    assert await statuses("ed") == {401}
    world.tokens["ed"] = f"Bearer {await world.served.issue(*await world.engine.authenticate('ed', 'another password'))}"
    assert await statuses("ed") == {200}
    with patch("time.time", return_value=datetime.now(UTC).timestamp() + 7200):
        assert world.served.remembered(world.tokens["ed"].encode()) is None
    await world.engine.uninstall("crm")
    assert await statuses("ed") == {404}
    await world.engine.delete_identity("ed")
    assert await statuses("ed") == {401}


async def test_rights_are_read_with_the_row_in_one_statement(world: World) -> None:
    """The rights of the last read are compared with the real ones, and read by themselves if they have moved."""
    serve, joined = Transactions.serve_now, []

    def noted(transactions: Transactions, work: Any, about: Any, question: Any = None) -> Any:
        joined.append(question is not None)
        return serve(transactions, work, about, question)

    async def ways() -> list[bool]:
        joined.clear()
        assert (await world.ask(f"GET {DATA}/plain/003"))[0] == 200
        return joined.copy()

    await world.ask(f"GET {DATA}/plain/003")
    with patch.object(Transactions, "serve_now", noted):
        assert await ways() == [True]
        await world.engine.set_roles("ed", [("crm", "editor"), ("other", "reader")])
        assert await ways() == [True, False]
        assert await ways() == [True]


async def test_a_request_counts_once_against_its_quota(world: World) -> None:
    refused: list[str] = []
    asked = (f"GET {DATA}/plain/003", f"GET {DATA}/plain/gone", f"GET {DATA}/plain?limit=3&n=gt.1")
    world.served.quota = EngineQuota(lambda: Limits(requests=len(asked)), refused.append, Rates(lambda: 1000.0))
    assert [(await world.ask(one))[0] for one in asked] == [200, 404, 200]
    assert [(await world.ask(one))[0] for one in asked] == [429, 429, 429]
    assert len(refused) == len(asked)


async def test_a_page_of_an_app_stays_in_its_sandbox(world: World) -> None:
    """The header is there unless the engine has an origin of its own."""
    if not world.root:
        pytest.skip("only engines of `up` share an origin with the console")
    own_origin = {"127.0.0.1:80", "[::1]:80"}
    for host in (*own_origin, "localhost", "engine.example.com", "[127.0.0.1]", "["):
        _, headers, _ = await world.ask(f"GET {DATA}/plain/003", host=host)
        assert (SANDBOX in headers) == (host not in own_origin), host


async def test_requests_wait_for_their_turn_while_another_tenant_asks(world: World) -> None:
    """With many at once some have to wait; all are answered alike."""
    answers = await asyncio.gather(*(world.ask(f"GET {DATA}/plain/003") for _ in range(30)))
    assert {answer[0] for answer in answers} == {200} and len({answer[2] for answer in answers}) == 1


ONE_ROW = [asked for asked in FAST if "?limit" not in asked and "&limit" not in asked]


@pytest.mark.slow
async def test_single_rows_on_a_server_are_answered_alike_before_the_framework(on_server: World) -> None:
    for asked in ONE_ROW:
        await on_server.same(asked)  # a thread compiles its statement
    assert {asked: await on_server.same(asked) for asked in ONE_ROW} == dict.fromkeys(ONE_ROW, (200, True))
    others = [*OTHERS, *(asked for asked in FAST if asked not in ONE_ROW)]
    found = {asked: (await on_server.same(asked))[1] for asked in others}
    assert not [asked for asked, fast in found.items() if fast]
    for headers, _, one in HEADERS:
        assert (await on_server.same(f"GET {DATA}/plain/003", **headers))[1] == one, headers
    _, sent, _ = await on_server.ask(f"GET {DATA}/plain/003")
    tag = dict(sent)[b"etag"].decode()
    assert await on_server.same(f"GET {DATA}/plain/003", if_none_match=tag) == (304, True)


@pytest.mark.slow
async def test_rights_on_a_server_are_those_of_the_moment(on_server: World) -> None:
    async def status(user: str) -> int:
        return (await on_server.same(f"GET {DATA}/plain/003", user))[0]

    assert [await status(user) for user in ("ed", "rea", "none", "")] == [200, 403, 403, 401]
    await on_server.engine.set_roles("ed", [])
    assert await status("ed") == 403
    await on_server.engine.set_roles("ed", [("crm", "editor")])
    assert await status("ed") == 200
    await on_server.engine.set_password("ed", Password("another password"))
    assert await status("ed") == 401


@pytest.mark.slow
async def test_many_reads_of_a_server_at_once_are_answered_alike(on_server: World) -> None:
    """More than there are connections for the event loop: some wait."""
    answers = await asyncio.gather(*(on_server.ask(f"GET {DATA}/plain/003") for _ in range(100)))
    assert {answer[0] for answer in answers} == {200} and len({answer[2] for answer in answers}) == 1


@pytest.mark.slow
async def test_a_read_of_a_server_that_is_slow_is_left_to_the_endpoint(on_server: World) -> None:
    async def late(*_: Any) -> Any:
        raise NotShort

    with patch.object(RowAccess, "read_late", late), on_server.watched():
        assert (await on_server.ask(f"GET {DATA}/plain/003"))[0] == 200
    assert not on_server.fast


async def test_a_bug_is_answered_with_500(world: World) -> None:
    with patch("tenantry.engine.data.fast_rows.plan_of", side_effect=KeyError("bug")):
        status, _, body = await world.ask(f"GET {DATA}/plain/003?select=code,n,note")
    assert status == 500 and b"log" in body
