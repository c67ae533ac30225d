"""Small requests for rows on PostgreSQL without a thread: the same answers, never an old right, and nothing lost."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import psycopg
import pytest

from tenantry.engine.access import Served
from tenantry.engine.data.quick_rows import QuickRows
from tenantry.engine.data.row_access import RowAccess
from tenantry.engine.service import Engine
from tenantry.engine.sql.quick import places, work
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.facts import Password
from tenantry.packages.build import build
from tests.scenario.data_world import DATA, MANIFEST, PASSWORD, engine_with_app, no_threads, signed_in
from tests.scenario.postgres import database_url
from tests.support.other_sessions import session
from tests.support.patience import DEADLINE_S
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("unhurried_quick_work")
CONTACTS, KINDS = f"{DATA}/contacts", f"{DATA}/kinds"
FEW = 3
HELD = 701_001
"""The key of a lock that the test has while inserts are slow."""
WIDER = MANIFEST.replace("name: age, type: integer", "name: age, type: bigint").replace("1.0.0", "2.0.0")
KIND = {
    "region": "eu",
    "code": 'a, "b"',
    "big": "9007199254740993",
    "price": "1.50",
    "ratio": 0.1,
    "day": "2026-02-03",
    "moment": "2026-02-03T04:05:06.000100Z",
    "extra": {"a": [1, None, "\u2028"]},
    "picture": "AQI=",
    "note": "日本 \U0001f600 \x01",
    "order": 3,
}


@pytest.fixture
def url(server: str) -> str:
    return database_url(server)


@pytest.fixture
async def world(tmp_path: Path, url: str) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_with_app(tmp_path, url) as world:
        yield world


@pytest.fixture
async def editor(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "ed") as editor:
        yield editor


@contextmanager
def threads() -> Iterator[None]:
    """Nothing is done without one."""
    with patch.object(QuickRows, "run", side_effect=NotShort):
        yield


def seen(answer: httpx.Response) -> tuple[Any, ...]:
    """The parts of an answer that must be the same in both ways."""
    names = ("etag", "link", "content-type", "preference-applied", "www-authenticate")
    return answer.status_code, answer.content, {name: answer.headers.get(name) for name in names}


READS = [
    *("contacts?limit=100", "contacts?limit=2", "contacts?limit=2&order=email.desc&age=gte.1", "contacts?limit=5&email=like.*x*"),
    *("contacts?limit=3&select=email,accounts(name)", "contacts/1", "contacts/1?select=email,accounts(name)", "contacts/77"),
    *("contacts/x", "contacts?limit=3&order=nothing", "nothing?limit=3", "contacts/1?select=no"),
    *("kinds?limit=10", "kinds/eu,a%2C%20%22b%22", "kinds/eu", "kinds?limit=10&select=note,extra,code"),
]


@pytest.mark.slow
async def test_reads_answer_the_same_without_a_thread(editor: httpx.AsyncClient) -> None:
    assert (await editor.post(f"{DATA}/accounts", json={"name": "Acme"})).status_code == 201
    people = [{"email": f"{number}@x", "age": number, "account_id": 1 if number % 2 else None} for number in range(5)]
    assert (await editor.post(CONTACTS, json=people)).status_code == 201
    assert (await editor.post(KINDS, json=KIND)).status_code == 201
    for path in READS:
        with threads():
            by_thread = await editor.get(f"{DATA}/{path}")
        await editor.get(f"{DATA}/{path}")  # opens a connection
        with no_threads():
            quick = await editor.get(f"{DATA}/{path}")
        assert seen(quick) == seen(by_thread), path


WRITES: list[tuple[str, Any, dict[str, str]]] = [
    ("contacts", {"email": "{}@x", "age": 3}, {}),
    ("contacts", {"email": "{}@x"}, {"Prefer": "return=minimal"}),
    ("contacts", {"email": "no at {}"}, {}),
    ("contacts", {"email": "same@x"}, {}),
    ("contacts", {"email": "{}@x", "account_id": 99}, {}),
    ("contacts", {"email": None}, {}),
    ("contacts", {"email": "{}@x", "age": "three"}, {}),
    ("contacts", {"email": "{}@x", "nothing": 1}, {}),
    ("contacts", {}, {}),
    ("kinds", KIND | {"code": "{}"}, {}),
    ("kinds", {"region": "eu", "code": "same", "note": "{}"}, {"Prefer": "resolution=merge-duplicates"}),
]


@pytest.mark.slow
async def test_inserts_answer_the_same_without_a_thread(editor: httpx.AsyncClient) -> None:
    async def sent(table: str, row: Any, headers: dict[str, str], name: str) -> tuple[Any, ...]:
        body = {key: value.format(name) if isinstance(value, str) else value for key, value in row.items()}
        answer = await editor.post(f"{DATA}/{table}", json=body, headers=headers)
        told = answer.json() if answer.content else {}
        kept = {key: value for key, value in told.items() if key not in ("id", "created", "token")}
        return answer.status_code, str(kept).replace(name, "NAME"), answer.headers.get("preference-applied")

    assert (await editor.post(CONTACTS, json={"email": "same@x"})).status_code == 201
    for number, write in enumerate(WRITES):
        with threads():
            by_thread = await sent(*write, f"threaded{number}")
        await sent(*write, f"once{number}")
        with no_threads():
            assert await sent(*write, f"quick{number}") == by_thread, write


@pytest.mark.slow
async def test_no_answer_comes_from_an_old_right(world: tuple[Engine, str], tmp_path: Path, url: str) -> None:
    """Another process takes the right away: the next request of this one is refused, and writes nothing."""
    other = await Engine.open(tmp_path / "data", database_url=url)

    async def asked(client: httpx.AsyncClient) -> list[int]:
        paths = [f"{CONTACTS}?limit=5", f"{CONTACTS}/1", f"{CONTACTS}/x", f"{CONTACTS}?limit=5&nothing=eq.1"]
        return [(await client.get(path)).status_code for path in paths]

    async def written(client: httpx.AsyncClient, email: str) -> int:
        return (await client.post(CONTACTS, json={"email": email})).status_code

    async with signed_in(world[1], "rea") as reader, signed_in(world[1], "ed") as editor:
        assert await written(editor, "a@b") == await written(editor, "b@b") == 201
        assert await asked(reader) == await asked(reader) == [200, 200, 400, 400]
        with no_threads():
            assert (await reader.get(f"{CONTACTS}/1")).status_code == 200
        await other.set_roles("rea", [])
        assert await asked(reader) == [403] * 4
        await other.set_roles("rea", [("crm", "reader")])
        assert await asked(reader) == [200, 200, 400, 400]
        await other.set_password("rea", Password("another password"))
        assert await asked(reader) == [401] * 4
        await other.set_roles("ed", [("crm", "reader")])
        assert await written(editor, "c@b") == 403
        assert len((await editor.get(f"{CONTACTS}?limit=9")).json()) == 2
        await other.delete_identity("ed")
        assert await asked(editor) == [401] * 4 and await written(editor, "d@b") == 401
    async with signed_in(world[1], "wri") as writer:
        assert await written(writer, "e@b") == await written(writer, "f@b") == 201
        await other.uninstall("crm")
        assert await written(writer, "g@b") == 404
    with session(url) as connection:
        assert connection.execute("SELECT count(*) FROM crm__contacts").fetchone() == (4,)
    await other.close()


@pytest.mark.slow
async def test_a_table_that_another_process_upgrades_is_read_as_it_is(
    world: tuple[Engine, str], tmp_path: Path, url: str, editor: httpx.AsyncClient
) -> None:
    other = await Engine.open(tmp_path / "data", database_url=url)
    assert (await editor.post(CONTACTS, json={"email": "a@b", "age": 7})).status_code == 201
    for _ in range(2):
        assert (await editor.get(f"{CONTACTS}/1")).json()["age"] == 7
    (tmp_path / "wider").mkdir()
    (tmp_path / "wider" / "app.yaml").write_text(WIDER)
    build(tmp_path / "wider", tmp_path / "wider.tapp")
    await other.publish(tmp_path / "wider.tapp")
    for _ in range(3):
        assert (await editor.get(f"{CONTACTS}/1")).json()["age"] == "7"
        assert (await editor.get(f"{CONTACTS}?limit=3")).json()[0]["age"] == "7"
        assert (await editor.post(CONTACTS, json={"email": f"{_}@b", "age": str(2**40)})).json()["age"] == str(2**40)
    await other.close()


@pytest.mark.slow
async def test_statements_that_a_thread_has_deallocated_are_prepared_again(editor: httpx.AsyncClient) -> None:
    for number in range(2):
        assert (await editor.post(CONTACTS, json={"email": f"{number}@x"})).status_code == 201
        assert (await editor.get(f"{CONTACTS}/1")).status_code == 200
    with threads():
        for number in range(2, 10):  # the driver prepares what it has seen five times
            assert (await editor.post(CONTACTS, json={"email": f"{number}@x"})).status_code == 201
        assert (await editor.post(CONTACTS, json={"email": "no at"})).status_code == 400  # the rollback deallocates
    with no_threads():
        assert (await editor.post(CONTACTS, json={"email": "10@x"})).status_code == 201
        assert (await editor.get(f"{CONTACTS}/1")).status_code == 200


@pytest.mark.slow
async def test_users_of_basic_and_strangers(world: tuple[Engine, str]) -> None:
    async with httpx.AsyncClient(base_url=world[1], auth=("ed", PASSWORD)) as basic:
        for _ in range(3):
            assert (await basic.get(f"{DATA}/accounts?limit=3")).json() == []
            assert (await basic.get(f"{DATA}/accounts/7")).status_code == 404
        with no_threads():
            assert (await basic.get(f"{DATA}/accounts/7")).status_code == 404
    async with httpx.AsyncClient(base_url=world[1], auth=("ed", "wrong")) as stranger:
        assert (await stranger.get(f"{DATA}/accounts/7")).status_code == 401


@pytest.fixture
def slow_inserts(url: str) -> Callable[..., None]:
    def begin(statement: str, when: str = "IMMEDIATE") -> None:
        with session(url, autocommit=True) as connection:
            connection.execute(f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statement} END $$".encode())
            trigger = f"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON crm__accounts DEFERRABLE INITIALLY {when}"
            connection.execute(f"{trigger} FOR EACH ROW EXECUTE FUNCTION slow()".encode())

    return begin


@pytest.mark.slow
async def test_a_slow_insert_is_done_again_in_a_thread_and_once(
    editor: httpx.AsyncClient, url: str, slow_inserts: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = f"{DATA}/accounts"
    for name in ("one", "two"):
        assert (await editor.post(accounts, json={"name": name})).status_code == 201
    slow_inserts("PERFORM pg_sleep(0.3); RETURN NULL;")
    monkeypatch.setattr(work, "WRITE_MS", 100)
    assert (await editor.post(accounts, json={"name": "three"})).status_code == 201
    assert [row["name"] for row in (await editor.get(f"{accounts}?limit=9")).json()] == ["one", "two", "three"]


@pytest.mark.slow
async def test_a_row_that_is_refused_at_the_commit_is_not_acknowledged(
    editor: httpx.AsyncClient, url: str, slow_inserts: Callable[..., None]
) -> None:
    accounts = f"{DATA}/accounts"
    for name in ("one", "two"):
        assert (await editor.post(accounts, json={"name": name})).status_code == 201
    slow_inserts("RAISE EXCEPTION 'refused at the end';", "DEFERRED")
    refused = await editor.post(accounts, json={"name": "three"})
    assert refused.status_code == 400 and "refused at the end" in refused.json()["error"]
    assert len((await editor.get(f"{accounts}?limit=9")).json()) == 2


@pytest.mark.slow
async def test_a_lock_is_waited_for_in_a_thread(editor: httpx.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = f"{DATA}/accounts"
    for name in ("one", "two"):
        assert (await editor.post(accounts, json={"name": name})).status_code == 201
    monkeypatch.setattr(work, "LOCK_MS", 50)
    with session(url) as connection:
        connection.execute("INSERT INTO crm__accounts (name) VALUES ('three')")
        waiting = asyncio.ensure_future(editor.post(accounts, json={"name": "three"}))
        assert (await editor.post(accounts, json={"name": "four"})).status_code == 201  # others go on
        assert not waiting.done()
        connection.rollback()
    assert (await waiting).status_code == 201


def end_sessions(url: str) -> int:
    """Ends all other sessions, and waits until those that were there are gone."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with session(url, autocommit=True) as connection:
        ended = [pid for (pid,) in connection.execute(f"SELECT pid {others}".encode())]
        for pid in ended:
            connection.execute("SELECT pg_terminate_backend(%s, 30000)", [pid])
        return len(ended)


@pytest.mark.slow
async def test_idle_sessions_that_were_ended_are_not_used_again(editor: httpx.AsyncClient, url: str) -> None:
    accounts = f"{DATA}/accounts"
    for turn in range(3):
        made = await asyncio.gather(*[editor.post(accounts, json={"name": f"{turn}-{number}"}) for number in range(12)])
        assert {answer.status_code for answer in made} == {201}
        assert end_sessions(url)
    assert (await editor.get(f"{accounts}?limit=1")).status_code == 200


@pytest.mark.slow
async def test_no_acknowledged_row_is_lost_while_sessions_are_ended(editor: httpx.AsyncClient, url: str) -> None:
    accounts, acknowledged, refused = f"{DATA}/accounts", set[str](), set[int]()
    over = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        while not over.is_set():
            name, number = f"{writer}-{number}", number + 1
            answer = await editor.post(accounts, json={"name": name})
            if answer.status_code == 201:
                acknowledged.add(name)
            else:
                refused.add(answer.status_code)
                assert answer.json()["error"]

    def is_enough(count: int) -> bool:
        return len(acknowledged) >= count

    writers = [asyncio.ensure_future(write(number)) for number in range(8)]
    for _ in range(10):
        await eventually(partial(is_enough, len(acknowledged) + 20))
        await asyncio.to_thread(end_sessions, url)
    over.set()
    await asyncio.gather(*writers)
    with session(url) as connection:
        stored = {name for (name,) in connection.execute("SELECT name FROM crm__accounts")}
    assert acknowledged <= stored and refused <= {503}
    assert (await editor.post(accounts, json={"name": "at last"})).status_code == 201


@pytest.mark.slow
async def test_many_requests_share_few_connections(editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "OF_ENGINE", 2)
    most = 0
    attached = places.Places._attached

    def counted(self: places.Places, *opened: Any) -> places.UsedConnection:
        nonlocal most
        most = max(most, self._used)
        return attached(self, *opened)

    with patch.object(places.Places, "_attached", counted):
        paths = [f"{CONTACTS}?limit=3", f"{CONTACTS}/1"] * 20
        answers = await asyncio.gather(*[editor.get(path) for path in paths])
    assert {answer.status_code for answer in answers} == {200, 404}
    assert most == 2 and not places._IN_USE


@pytest.mark.slow
async def test_a_client_that_leaves_takes_its_connection_with_it(
    world: tuple[Engine, str], editor: httpx.AsyncClient, slow_inserts: Callable[..., None]
) -> None:
    accounts = f"{DATA}/accounts"
    for name in ("one", "two"):
        assert (await editor.post(accounts, json={"name": name})).status_code == 201
    slow_inserts("PERFORM pg_sleep(2); RETURN NULL;")
    with pytest.raises(httpx.ReadTimeout):
        await editor.post(accounts, json={"name": "late"}, timeout=httpx.Timeout(DEADLINE_S, read=0.5))
    await eventually(lambda: not places._IN_USE)
    assert (await editor.get(f"{accounts}?limit=9")).json()[:2] == [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]


@pytest.mark.slow
async def test_large_rows_are_read_in_a_thread(editor: httpx.AsyncClient) -> None:
    for number in range(20):
        row = {"region": "eu", "code": str(number), "note": "y" * 100_000}
        assert (await editor.post(KINDS, json=row)).status_code == 201
    for _ in range(3):
        assert len((await editor.get(f"{KINDS}/eu,3")).json()["note"]) == 100_000
        listed = (await editor.get(f"{KINDS}?limit=50")).json()
        assert sum(len(row["note"]) for row in listed) == 2_000_000


@pytest.fixture
def url_of_few(server: str) -> str:
    """A database that takes FEW connections, of a role that no limit leaves out."""
    name = f"few{secrets.token_hex(4)}"
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(f"CREATE DATABASE {name} OWNER {name} CONNECTION LIMIT {FEW}".encode())
    return f"postgresql+psycopg://{server.replace('tests@', f'{name}@')}/{name}"


@pytest.mark.slow
async def test_a_full_server_serves_those_who_are_connected_and_others_later(tmp_path: Path, url_of_few: str) -> None:
    accounts = f"{DATA}/accounts"
    async with engine_with_app(tmp_path, url_of_few) as (_, base), signed_in(base, "ed") as editor:
        assert (await editor.post(accounts, json={"name": "first"})).status_code == 201
        made = await asyncio.gather(*[editor.post(accounts, json={"name": str(number)}) for number in range(40)])
        assert [answer.text for answer in made if answer.status_code != 201] == []
        with ExitStack() as stack:
            await eventually(partial(filled, stack, url_of_few, []))
            refused = await editor.get(f"{accounts}/1")
            assert refused.status_code == 503 and "too many connections" in refused.json()["error"]
        assert (await editor.get(f"{accounts}/1")).json()["name"] == "first"


def filled(stack: ExitStack, url: str, held: list[psycopg.Connection[Any]]) -> bool:
    """Takes each connection that the engine lets go. Returns True once it has none."""
    with suppress(psycopg.OperationalError):
        held.append(stack.enter_context(session(url)))
    return len(held) == FEW


@pytest.mark.slow
async def test_slow_writes_of_one_engine_leave_another_alone(
    world: tuple[Engine, str], editor: httpx.AsyncClient, url: str, server: str, tmp_path: Path, slow_inserts: Callable[..., None]
) -> None:
    accounts = f"{DATA}/accounts"
    for name in ("one", "two"):
        assert (await editor.post(accounts, json={"name": name})).status_code == 201
    slow_inserts(f"WHILE NOT pg_try_advisory_xact_lock_shared({HELD}) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN NULL;")
    (tmp_path / "other").mkdir()
    async with engine_with_app(tmp_path / "other", database_url(server)) as (_, base), signed_in(base, "ed") as other:
        with session(url, autocommit=True) as holder:
            holder.execute(f"SELECT pg_advisory_lock({HELD})".encode())
            slow = [asyncio.ensure_future(editor.post(accounts, json={"name": f"slow {number}"})) for number in range(40)]
            await eventually(lambda: bool(places._IN_USE))
            for number in range(20):
                assert (await other.post(accounts, json={"name": str(number)})).status_code == 201
                assert (await other.get(f"{accounts}/1")).status_code == 200
            assert 201 not in {each.result().status_code for each in slow if each.done()}
        # On a slow machine those that wait for longer than a write may are refused.
        assert {(await each).status_code for each in slow} <= {201, 400, 503}


@pytest.mark.slow
async def test_reads_are_not_tried_in_the_ways_of_sqlite(editor: httpx.AsyncClient) -> None:
    with patch.object(RowAccess, "run_now") as short:
        with patch.object(Served, "remembered_sender") as frequent:
            assert (await editor.get(CONTACTS, params={"limit": 3})).status_code == 200
        assert (await editor.get(f"{CONTACTS}/1")).status_code in (200, 404)
    assert not short.called and not frequent.called
