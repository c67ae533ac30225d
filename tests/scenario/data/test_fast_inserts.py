"""Inserts of one row on a server are answered before the framework: as by the endpoint, by the rights of the moment, and once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tenantry.engine.data.live.feed import RowFeed
from tenantry.engine.data.row_access import RowAccess
from tenantry.engine.data.writing.plans import InsertPlan
from tenantry.engine.quota import EngineQuota, Limits
from tenantry.engine.service import Engine
from tenantry.engine.sql import kept_plans
from tenantry.engine.sql.quick.pipeline import ConnectionBroken, PipelineConnection
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.facts import Password
from tenantry.rest.fairness.rates import Rates
from tests.scenario.data.fast_world import DATA, WAYS, World, world_of
from tests.scenario.data.plain_rows import ROWS
from tests.scenario.postgres import database_url
from tests.support.other_sessions import session

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unhurried_quick_work")]
CONTACTS, PLAIN, KINDS = (f"POST {DATA}/{table}" for table in ("contacts", "plain", "kinds"))
MADE = ("id", "created", "token")
"""Columns whose values differ each time."""


@pytest.fixture
def url(server: str) -> str:
    return database_url(server)


@pytest.fixture(params=WAYS)
async def world(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> AsyncIterator[World]:
    async with world_of(request.param, tmp_path, url) as made:
        for number in range(2):  # a thread compiles the statement
            assert (await made.ask(CONTACTS, body=b'{"email": "first%d@x"}' % number))[0] == 201
        yield made


def count(url: str, table: str = "contacts") -> int:
    """The rows of a table."""
    with session(url) as connection:
        found = connection.execute(f"SELECT count(*) FROM crm__{table}".encode()).fetchone()
    assert found is not None
    return int(found[0])


async def sent(world: World, asked: str, row: Any, user: str = "ed", **headers: str) -> tuple[int, bool]:
    """The status of a request, and whether it was answered before the framework."""
    before = len(world.fast)
    with world.watched():
        status, *_ = await world.ask(asked, user, json.dumps(row).encode(), **headers)
    return status, len(world.fast) > before


def seen(answer: tuple[int, list[tuple[bytes, bytes]], bytes], name: str) -> tuple[Any, ...]:
    """The parts of an answer that are the same each time."""
    status, headers, body = answer
    row = json.loads(body)
    kept = {key: value for key, value in row.items() if key not in MADE}
    changing = (b"etag", b"content-length")
    shown = [(key, b"" if key in changing else value) for key, value in headers]
    return status, shown, list(row), json.dumps(kept).replace(name, "NAME")


ROWS_SENT: list[tuple[str, Any, str, int]] = [
    (CONTACTS, {"email": "{}@x", "age": 3}, "ed", 201),
    (CONTACTS, {"email": "{}@x", "age": None, "active": False}, "ed", 201),
    (CONTACTS, {"email": "{}@x"}, "wri", 201),
    (KINDS, {"region": "eu", "code": "{}", "price": "1.50", "picture": "AQI=", "ratio": 0.1, "day": None}, "ed", 201),
    (CONTACTS, {"email": "no at {}"}, "ed", 400),
    (CONTACTS, {"email": "first0@x"}, "ed", 400),
    (CONTACTS, {"email": "{}@x", "account_id": 99}, "ed", 400),
    (CONTACTS, {"email": "{}@x", "age": "three"}, "ed", 400),
    (CONTACTS, {"email": "{}@x", "nothing": 1}, "ed", 400),
    (CONTACTS, {"id": 7, "email": "{}@x"}, "ed", 400),
    (CONTACTS, {}, "ed", 400),
    (CONTACTS, {"email": "{}@x"}, "rea", 403),
    (CONTACTS, {"email": "{}@x"}, "none", 403),
    (f"POST {DATA}/nothing", {"email": "{}@x"}, "ed", 404),
    ("POST /api/v1/data/other/contacts", {"email": "{}@x"}, "ed", 404),
]


async def test_a_row_is_answered_alike_before_the_framework(world: World, url: str) -> None:
    for number, (asked, row, user, status) in enumerate(ROWS_SENT):

        def named(name: str, row: Any = row) -> bytes:
            given = {key: value.format(name) if isinstance(value, str) else value for key, value in row.items()}
            return json.dumps(given).encode()

        for turn in range(2):  # a thread compiles the statement
            await world.ask(asked, user, named(f"once{number}{turn}"))
        with world.endpoints():
            slow = await world.ask(asked, user, named(f"slow{number}"))
        before, rows = len(world.fast), count(url)
        with world.watched():
            fast = await world.ask(asked, user, named(f"fast{number}"))
        assert seen(fast, f"fast{number}") == seen(slow, f"slow{number}")
        assert (fast[0], len(world.fast) - before) == (status, 1), row
        assert count(url) - rows == (status == 201 and "contacts" in asked)


async def test_each_type_is_answered_with_the_same_bytes(world: World, url: str) -> None:
    for row in ROWS:
        answers = []
        given = row | {"code": f"new{row['code']}"}
        for way in (world.endpoints, world.watched):
            for _ in range(2):  # a thread compiles the statement
                with way():
                    answers.append(await world.ask(PLAIN, body=json.dumps(given).encode()))
                assert answers[-1][0] == 201
                assert (await world.ask(f"DELETE {DATA}/plain/{given['code']}"))[0] == 204
        assert answers[1] == answers[2] == answers[3]
    assert len(world.fast) >= len(ROWS)


LEFT: list[tuple[str, bytes, dict[str, str], int]] = [
    (CONTACTS, b'[{"email": "a@x"}]', {}, 201),
    (CONTACTS, b'{"email": "b@x"}', {"content-type": "application/x-ndjson"}, 201),
    (CONTACTS, b'{"email": "c@x"}', {"prefer": "return=minimal"}, 201),
    (f"{CONTACTS}?on_conflict=email", b'{"email": "d@x"}', {}, 400),
    (f"{CONTACTS}?nothing=1", b'{"email": "d@x"}', {}, 400),
    (CONTACTS, b"7", {}, 400),
    (CONTACTS, b'{"email": null}', {}, 400),
    (CONTACTS, b'{"email": "e@x"}', {"content-encoding": "gzip"}, 415),
    (CONTACTS, b'{"email": "f@x"}', {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, 201),
    (CONTACTS, b'{"email": "g@x"}', {"authorization": "Bearer x.y.z"}, 401),
    (f"{CONTACTS}/1", b'{"email": "h@x"}', {}, 405),
]


async def test_what_is_unusual_is_left_to_the_endpoint(world: World) -> None:
    for asked, body, headers, status in LEFT:
        before = len(world.fast)
        with world.watched():
            answer = await world.ask(asked, body=body, **headers)
        assert (answer[0], len(world.fast) - before) == (status, 0), (asked, body, headers)


async def test_rights_are_those_of_the_moment(world: World, url: str, tmp_path: Path) -> None:
    """Another process takes each right away while the caller is known: nothing is written by an old one."""
    other = await Engine.open(tmp_path / "data", database_url=url)

    async def status(user: str = "ed") -> int:
        return (await sent(world, CONTACTS, {"email": f"{count(url)}@x"}, user))[0]

    assert [await status() for _ in range(2)] == [201, 201]
    rows = count(url)
    await other.set_roles("ed", [("crm", "reader")])
    assert [await status() for _ in range(2)] == [403, 403]
    await other.set_roles("ed", [("crm", "editor")])
    assert await status() == 201
    await other.set_password("ed", Password("another password"))
    assert await status() == 401
    await other.delete_identity("ed")
    assert await status() == 401
    assert await status("wri") == 201
    await other.uninstall("crm")
    assert await status("wri") == 404
    assert count(url) == rows + 2
    await other.close()


async def test_a_row_that_needs_a_thread_is_inserted_once(world: World, url: str) -> None:
    rows = count(url)
    with patch.object(RowAccess, "write_late", side_effect=NotShort):
        assert await sent(world, CONTACTS, {"email": "late@x"}) == (201, False)
    assert count(url) == rows + 1


async def test_an_insert_of_which_nothing_is_known_is_not_tried_again(world: World, url: str) -> None:
    """The connection breaks behind the commit: the client reads that it has to look."""
    ask, rows = PipelineConnection.ask, count(url)

    async def broken(*args: Any) -> Any:
        await ask(*args)
        raise ConnectionBroken("the server went away")

    with patch.object(PipelineConnection, "ask", broken):
        assert await sent(world, CONTACTS, {"email": "unknown@x"}) == (503, True)
    assert count(url) == rows + 1


async def test_a_bug_behind_the_commit_is_answered_and_nothing_is_inserted_again(world: World, url: str) -> None:
    rows = count(url)
    with patch.object(InsertPlan, "_answer", side_effect=KeyError("bug")):
        assert await sent(world, CONTACTS, {"email": "bug@x"}) == (500, True)
    assert count(url) == rows + 1


async def test_a_request_counts_once_against_its_quotas(world: World) -> None:
    refused: list[str] = []
    rows = [{"email": "one@x"}, {"email": "no at"}, [{"email": "three@x"}]]
    world.served.quota = EngineQuota(lambda: Limits(requests=len(rows)), refused.append, Rates(lambda: 1000.0))
    assert [(await sent(world, CONTACTS, row))[0] for row in rows] == [201, 400, 201]
    assert [(await sent(world, CONTACTS, row))[0] for row in rows] == [429, 429, 429]
    assert len(refused) == len(rows)


async def test_a_limited_database_is_measured_by_the_endpoint(world: World) -> None:
    with patch.object(world.engine.rows, "_quota", EngineQuota(lambda: Limits(database=1 << 40))):
        assert await sent(world, CONTACTS, {"email": "measured@x"}) == (201, False)


async def test_listeners_hear_of_the_row(world: World) -> None:
    with patch.object(RowFeed, "wake") as wake:
        assert await sent(world, CONTACTS, {"email": "heard@x"}) == (201, True)
        assert wake.call_count == 1
        assert await sent(world, CONTACTS, {"email": "no at"}) == (400, True)
        assert wake.call_count == 1


async def test_few_plans_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_plans, "MOST_PLANS", 2)
    columns: list[dict[str, Any]] = [{}, {"age": 1}, {"active": True}, {"age": None}]
    for turn in range(2):
        for number, more in enumerate(columns):
            assert (await sent(world, CONTACTS, {"email": f"{turn}-{number}@x"} | more))[0] == 201
