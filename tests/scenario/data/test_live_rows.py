"""Changes of a table as they happen, on SQLite and on PostgreSQL: to whom, in which order, and from where on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tenantry.engine.data.live import log, rendering, rights, streaming
from tenantry.engine.data.live.feed import AT_ONCE
from tenantry.engine.data.live.listeners import EventBatch, Listener
from tenantry.engine.data.live.triggers import CHANGES, KEPT, NAMES, has_table, remove_log
from tenantry.engine.logical.dump import dump, rows_of
from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tenantry.packages.build import build
from tenantry.rest.auth.tokens import LEEWAY
from tenantry.rest.fairness.streams import Most, Streams
from tests.scenario.data.live_world import following
from tests.scenario.data_world import DATA, MANIFEST, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.support.patience import DEADLINE_S
from tests.support.waiting import eventually

APP = MANIFEST.replace("to: [id]}]\n    checks", "to: [id], onDelete: cascade}]\n    checks").replace(
    "  reader: {contacts: [read]}", "  reader: {contacts: [read]}\n  other: {kinds: [read]}"
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str | None:
    return database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None


@pytest.fixture
async def world(url: str | None, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_with_app(tmp_path, url, APP) as both:
        yield both


@pytest.fixture
async def editor(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "ed") as client:
        yield client


@pytest.fixture
async def reader(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "rea") as client:
        yield client


async def put(client: httpx.AsyncClient, *names: str) -> None:
    answer = await client.post(f"{DATA}/contacts", json=[{"email": f"{name}@x"} for name in names])
    assert answer.status_code == 201, answer.text


def emails(events: list[tuple[str, Any]]) -> list[str]:
    return [data["row"]["email"] for name, data in events if name in ("insert", "update")]


@pytest.mark.slow
async def test_each_change_comes_with_its_key_and_its_row(editor: httpx.AsyncClient, reader: httpx.AsyncClient) -> None:
    await put(editor, "before")
    async with following(reader, "contacts") as live:
        await put(editor, "a", "b")
        await live.until(3)
        await editor.patch(f"{DATA}/contacts/2", json={"age": 5})
        await live.until(4)
        await editor.delete(f"{DATA}/contacts/2")
        events = await live.until(5)
        row = (await editor.get(f"{DATA}/contacts/3")).json()
    assert [(name, data.get("key")) for name, data in events] == [
        ("ready", None), ("insert", {"id": 2}), ("insert", {"id": 3}), ("update", {"id": 2}), ("delete", {"id": 2}),
    ]  # fmt: skip
    assert events[2][1] == {"key": {"id": 3}, "row": row} and events[3][1]["row"]["age"] == 5 and "row" not in events[4][1]


async def test_rows_that_a_foreign_key_takes_along_are_told_of(editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/accounts", json={"name": "acme"})
    await editor.post(f"{DATA}/contacts", json=[{"email": f"{n}@x", "account_id": 1} for n in range(2)])
    async with following(editor, "contacts") as live:
        assert (await editor.delete(f"{DATA}/accounts/1")).status_code == 204
        events = await live.until(3)
    assert sorted((name, data["key"]["id"]) for name, data in events[1:]) == [("delete", 1), ("delete", 2)]


async def test_rows_in_bulk_and_merged_rows_are_told_of(editor: httpx.AsyncClient) -> None:
    ndjson = {"Content-Type": "application/x-ndjson"}
    async with following(editor, "kinds") as live:
        body = b"\n".join(b'{"region": "r", "code": "%d"}' % number for number in range(50))
        assert (await editor.post(f"{DATA}/kinds", content=body, headers=ndjson)).status_code == 201
        await live.until(51)
        merge = {"Prefer": "resolution=merge-duplicates"}
        rows = [{"region": "r", "code": "7", "order": 1}, {"region": "r", "code": "new", "order": 1}]
        assert (await editor.post(f"{DATA}/kinds", json=rows, headers=merge)).is_success
        events = await live.until(53)
    assert [name for name, _ in events] == ["ready", *["insert"] * 50, "update", "insert"]


@pytest.mark.slow
async def test_a_token_that_expires_ends_its_stream(world: tuple[Engine, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenantry.engine.access.TOKEN_TTL", timedelta(seconds=3) - LEEWAY)
    async with signed_in(world[1], "rea") as reader, following(reader, "contacts") as live:
        assert (await live.end())[-1][0] == "end"
        assert (await reader.get(f"{DATA}/contacts/changes")).status_code == 401


@pytest.mark.slow
async def test_a_refused_request_tells_nothing(editor: httpx.AsyncClient) -> None:
    async with following(editor, "contacts") as live:
        assert (await editor.post(f"{DATA}/contacts", json=[{"email": "a@x"}, {"email": "no address"}])).status_code == 400
        await put(editor, "b")
        assert emails(await live.until(2)) == ["b@x"]


@pytest.mark.slow
async def test_keys_and_rows_of_every_type(editor: httpx.AsyncClient) -> None:
    given = {"region": "a,b ü", "code": "'\"\\\n", "big": "9223372036854775807", "price": "1.50", "ratio": 0.1, "extra": [1.0]}
    async with following(editor, "kinds") as live:
        row = (await editor.post(f"{DATA}/kinds", json=given)).json()
        events = await live.until(2)
    assert events[1] == ("insert", {"key": {"region": given["region"], "code": given["code"]}, "row": row})


@pytest.mark.slow
async def test_a_large_row_is_named_without_its_values(editor: httpx.AsyncClient) -> None:
    async with following(editor, "kinds") as live:
        await editor.post(f"{DATA}/kinds", json={"region": "r", "code": "1", "note": "x" * (1 << 20)})
        assert (await live.until(2))[1] == ("insert", {"key": {"region": "r", "code": "1"}})


@pytest.mark.slow
async def test_a_client_goes_on_where_it_was_also_after_a_restart(url: str | None, tmp_path: Path) -> None:
    async with engine_with_app(tmp_path, url, APP) as (engine, served), signed_in(served, "ed") as editor:
        async with following(editor, "contacts") as live:
            await put(editor, "a")
            await live.until(2)
            last = live.last
        await put(editor, "b", "c")
        async with following(editor, "contacts", last) as live:
            await put(editor, "d")
            assert emails(await live.until(3)) == ["b@x", "c@x", "d@x"]
        again = await Engine.open(tmp_path / "data", database_url=url)
        engine.live, engine._transactions = again.live, again._transactions
        async with following(editor, "contacts", last) as live:
            assert emails(await live.until(3)) == ["b@x", "c@x", "d@x"]
        await again.close()


@pytest.mark.parametrize("last", ["nonsense", "0123456789abcdef-5", "a" * 5000, "EPOCH-999999", "EPOCH-٣", "EPOCH--1"])
async def test_an_id_of_elsewhere_is_answered_by_a_reset(editor: httpx.AsyncClient, last: str) -> None:
    async with following(editor, "contacts") as live:
        epoch = live.last.partition("-")[0]
    headers = {b"Last-Event-ID": last.replace("EPOCH", epoch).encode("utf-8")}
    async with editor.stream("GET", f"{DATA}/contacts/changes", headers=headers) as answer:
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        assert [await anext(lines) for _ in range(3)][2] == "event: reset"


@pytest.mark.slow
async def test_what_the_log_has_lost_is_answered_by_a_reset(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    engine, _ = world
    async with following(editor, "contacts") as live:
        last = live.last

        def many(connection: sa.Connection) -> None:
            numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {KEPT + 500})"
            connection.exec_driver_sql(f"INSERT INTO crm__contacts (email, active) {numbers} SELECT i || '@y', true FROM n")

        await engine._transactions.write(many)
        assert (await live.end())[-1][0] == "end"

        def count(connection: sa.Connection) -> int:
            return int(connection.exec_driver_sql(f"SELECT count(*) FROM {CHANGES}").scalar_one())

        assert KEPT <= await engine._transactions.read(count, int) <= KEPT + 128
    async with following(editor, "contacts", last) as live:
        assert (await live.until(1))[0][0] == "reset"
        await put(editor, "a")
        assert emails(await live.until(2)) == ["a@x"]


async def _revoke(engine: Engine) -> None:
    await engine.set_roles("rea", [("crm", "writer")])


async def _change_password(engine: Engine) -> None:
    await engine.set_password("rea", Password(clear="another password"))


async def _delete(engine: Engine) -> None:
    await engine.delete_identity("rea")


async def _uninstall(engine: Engine) -> None:
    await engine.uninstall("crm")


ENDS: dict[str, tuple[Callable[[Engine], Any], str, int]] = {
    "a grant": (_revoke, "role writer of app crm may not read contacts", 403),
    "a password": (_change_password, "the token is no longer valid: the password was changed", 401),
    "an identity": (_delete, "the token is no longer valid: its identity was deleted", 401),
    "an app": (_uninstall, "", 404),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ENDS)
async def test_who_loses_the_right_loses_the_stream(
    what: str, world: tuple[Engine, str], reader: httpx.AsyncClient, editor: httpx.AsyncClient
) -> None:
    revoke, reason, status = ENDS[what]
    async with following(reader, "contacts") as live, following(editor, "contacts") as other:
        await revoke(world[0])
        events = await live.end(10)
        assert events[-1][0] == "end" and reason in events[-1][1]["reason"]
        assert not other.closed or what == "an app"
    assert (await reader.get(f"{DATA}/contacts/changes")).status_code == status


@pytest.mark.slow
async def test_who_may_not_read_gets_what_a_list_gets(world: tuple[Engine, str]) -> None:
    for username, path in (
        ("wri", "contacts"),
        ("none", "contacts"),
        ("rea", "accounts"),
        ("rea", "nope"),
        ("admin", "contacts"),
    ):
        async with signed_in(world[1], username) as client:
            listed, live = [await client.get(f"{DATA}/{path}{more}") for more in ("", "/changes")]
            assert (live.status_code, live.json()) == (listed.status_code, listed.json()), (username, path)
    async with httpx.AsyncClient(base_url=world[1]) as client:
        assert (await client.get(f"{DATA}/contacts/changes")).status_code == 401


@pytest.mark.slow
async def test_a_row_whose_key_is_changes_can_be_read(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("primaryKey: [region, code]", "primaryKey: [code]")
    async with engine_with_app(tmp_path, None, manifest) as (_, served), signed_in(served, "ed") as editor:
        await editor.post(f"{DATA}/kinds", json={"code": "changes", "region": "r"})
        assert (await editor.get(f"{DATA}/kinds/%63hanges")).json()["region"] == "r"
        assert (await editor.delete(f"{DATA}/kinds/changes")).status_code == 204


@pytest.mark.slow
async def test_an_install_begins_a_new_epoch(
    url: str | None, world: tuple[Engine, str], editor: httpx.AsyncClient, tmp_path: Path
) -> None:
    engine, _ = world
    async with following(editor, "contacts") as live:
        await put(editor, "a")
        await live.until(2)
        source = tmp_path / "second"
        source.mkdir()
        text = APP.replace("version: 1.0.0", "version: 2.0.0").replace(
            "{name: age, type: integer}", "{name: years, type: text, renamedFrom: age}"
        )
        (source / "app.yaml").write_text(text)
        build(source, tmp_path / "second.tapp")
        await engine.publish(tmp_path / "second.tapp")
        assert (await live.end())[-1] == (
            "end",
            {"reason": "the table is another now: its app was installed or removed, or its database restored"},
        )
        last = live.last
    await put(editor, "b")
    async with following(editor, "contacts", last) as live:
        assert (await live.until(1))[0][0] == "reset"
        await put(editor, "c")
        assert emails(await live.until(2)) == ["c@x"]


@pytest.mark.slow
async def test_a_table_made_again_is_another(world: tuple[Engine, str], editor: httpx.AsyncClient, tmp_path: Path) -> None:
    engine, _ = world
    async with following(editor, "contacts") as live:
        await put(editor, "a")
        await live.until(2)
        last = live.last
    await engine.uninstall("crm")
    await engine.drop_data("crm")
    await engine.install("crm", "1.0.0")
    await put(editor, "b")
    async with following(editor, "contacts", last) as live:
        assert (await live.until(1))[0][0] == "reset"
        await put(editor, "c")
        assert emails(await live.until(2)) == ["c@x"]


async def test_a_copy_of_a_database_holds_no_log(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path, None, APP) as (_, served), signed_in(served, "ed") as editor:
        async with following(editor, "contacts"):
            await put(editor, "a")
        source, copy = (sqlite3.connect(path) for path in (tmp_path / "data" / "engine.db", ":memory:"))
        source.backup(copy)
        remove_log(copy)
        assert (
            copy.execute("SELECT name FROM sqlite_master WHERE name LIKE '_tenantry_live%' OR type = 'trigger'").fetchall() == []
        )
        copy.execute("INSERT INTO crm__contacts (email, active) VALUES ('b@x', true)")
        source.close()
        copy.close()


@pytest.mark.slow
async def test_a_logical_copy_holds_no_log(server: str, tmp_path: Path) -> None:
    url = database_url(server)
    async with engine_with_app(tmp_path, url, APP) as (_, served), signed_in(served, "ed") as editor:
        async with following(editor, "contacts"):
            await put(editor, "a")
        members = list(dump(url, tmp_path / "scratch"))
    assert not {rows_of(name) for name in NAMES} & set(members) and rows_of("crm__contacts") in members


@pytest.mark.slow
async def test_a_change_by_another_process_is_seen(
    url: str | None, world: tuple[Engine, str], editor: httpx.AsyncClient, tmp_path: Path
) -> None:
    async with following(editor, "contacts") as live:
        other = await Engine.open(tmp_path / "data", database_url=url)
        await other._transactions.write(
            lambda c: c.exec_driver_sql("INSERT INTO crm__contacts (email, active) VALUES ('other@x', true)") and None
        )
        assert emails(await live.until(2)) == ["other@x"]
        await other.close()


async def test_transactions_that_end_out_of_order_lose_no_change(
    url: str | None, world: tuple[Engine, str], editor: httpx.AsyncClient
) -> None:
    if url is None:
        return  # one writer at a time
    insert = "INSERT INTO crm__contacts (email, active) VALUES ('{}@x', true)"
    async with following(editor, "contacts") as live:
        slow = sa.create_engine(url)
        with slow.connect() as first, slow.connect() as undone:
            first.exec_driver_sql(insert.format("slow"))
            undone.exec_driver_sql(insert.format("undone"))
            await put(editor, "fast")
            undone.rollback()
            with pytest.raises(TimeoutError):
                await live.until(2, 2.5)
            async with following(editor, "contacts") as late:
                first.commit()
                assert emails(await live.until(3)) == ["slow@x", "fast@x"]
                assert emails(await late.until(3)) == ["slow@x", "fast@x"], "it was under way when the client came"
        slow.dispose()


async def test_nothing_is_read_when_nobody_listens(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    engine, _ = world
    async with following(editor, "contacts"):
        assert engine.live.feed._task is not None
    await eventually(lambda: engine.live.feed._task is None and engine.live.rights._task is None)
    assert not engine.live.feed._audiences and not streaming.LISTENERS._open


async def test_a_table_that_nobody_listens_to_is_not_logged(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    engine, _ = world
    await put(editor, "a")
    assert not await engine._transactions.read(lambda c: has_table(c, CHANGES), bool)
    async with following(editor, "accounts"):
        await put(editor, "b")
        assert await engine._transactions.read(lambda c: log.read(c, 0, 10), list) == []


@pytest.mark.slow
async def test_many_listeners_cost_one_read(editor: httpx.AsyncClient, monkeypatch: Any) -> None:
    reads: list[int] = []
    real = log.read
    rendered: list[int] = []
    whole = rendering.events

    def reading(connection: sa.Connection, after: int, *rest: Any) -> Any:
        reads.append(after)
        return real(connection, after, *rest)

    def rendered_once(connection: sa.Connection, epoch: log.Epoch, changes: Any) -> Any:
        rendered.append(len(changes))
        return whole(connection, epoch, changes)

    monkeypatch.setattr(log, "read", reading)
    monkeypatch.setattr(rendering, "events", rendered_once)
    async with AsyncExitStack() as stack:
        lives = [await stack.enter_async_context(following(editor, "contacts")) for _ in range(20)]
        reads.clear()
        await put(editor, "a")
        for live in lives:
            assert emails(await live.until(2)) == ["a@x"]
        assert sum(rendered) == 1 and len(reads) <= 5


@pytest.mark.slow
async def test_a_thousand_listeners_leave_turns_of_the_loop_to_other_tenants(
    world: tuple[Engine, str], editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of others get a turn after AT_ONCE listeners, however many there are."""
    epochs: list[log.Epoch] = []
    whole, hand_over = rendering.events, Listener.put

    def rendered(connection: sa.Connection, epoch: log.Epoch, changes: Any) -> Any:
        epochs.append(epoch)
        return whole(connection, epoch, changes)

    monkeypatch.setattr(rendering, "events", rendered)
    handed: list[int] = [0]

    def counted(listener: Listener, chunk: EventBatch) -> None:
        handed[-1] += 1
        hand_over(listener, chunk)

    async def turns() -> None:
        while True:
            await asyncio.sleep(0)
            handed.append(0)

    async with following(editor, "contacts") as live:
        await put(editor, "a")
        await live.until(2)
        crowd = [Listener() for _ in range(1000)]
        for each in crowd:
            await world[0].live.feed.join(epochs[0], each)
        monkeypatch.setattr(Listener, "put", counted)
        turning = asyncio.create_task(turns())
        await put(editor, "b")
        heard = [await asyncio.wait_for(each.next(), DEADLINE_S) for each in crowd]
        turning.cancel()
    assert all(data is not None and b"b@x" in data for data in heard)
    assert sum(handed) >= len(crowd) and max(handed) <= AT_ONCE


async def test_the_first_listeners_of_a_table_may_come_at_once(editor: httpx.AsyncClient, reader: httpx.AsyncClient) -> None:
    """Each looks for the log before one of them makes it, and all must find the same one."""
    async with AsyncExitStack() as stack:
        coming = [stack.enter_async_context(following(client, "contacts")) for client in (editor, reader) * 12]
        live = await asyncio.gather(*coming)
        assert {one.status for one in live} == {200}
        await put(editor, "a")
        assert {emails(await one.until(2))[0] for one in live} == {"a@x"}


async def test_places_are_bounded(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    engine, _ = world
    engine.live._streams = Streams(Most(5, 3, 2))
    async with following(editor, "contacts"), following(editor, "contacts"):
        refused = await editor.get(f"{DATA}/contacts/changes")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"] == "2 streams of this environment are open already; try again later"

    async def none_is_open() -> bool:
        await editor.head(f"{DATA}/contacts")
        return not engine.live._streams._open

    await eventually(none_is_open)
    async with following(editor, "contacts") as live:
        assert live.status == 200


@pytest.mark.slow
async def test_a_listener_that_does_not_read_is_dropped(
    world: tuple[Engine, str], editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, served = world
    monkeypatch.setattr("tenantry.engine.data.live.listeners.MOST_WAITING", 2 << 20)
    host, port = served.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1024)
    head = f"GET {DATA}/kinds/changes HTTP/1.1\r\nHost: x\r\nAuthorization: {editor.headers['Authorization']}\r\n\r\n"

    def listeners() -> int:
        return sum(len(one.listeners) for one in engine.live.feed._audiences.values())

    try:
        async with following(editor, "kinds") as live, asyncio.timeout(DEADLINE_S):
            writer.write(head.encode())  # once the table has a listener: two first ones may be in each other's way
            await eventually(lambda: listeners() >= 2)
            number = 0
            while listeners() == 2:
                rows = [{"region": "r", "code": f"{number}-{n}", "note": "x" * 60_000} for n in range(20)]
                assert (await editor.post(f"{DATA}/kinds", json=rows)).status_code == 201
                number += 1
                await live.until(1 + number * 20)  # who reads goes on
    finally:
        writer.transport.abort()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "AGAIN_S", 0.2)
