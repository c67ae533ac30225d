"""Lists as CSV and NDJSON, whole and in parts, and their exact counts, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import orjson
import pytest
import sqlalchemy as sa

from tenantry.engine.data.reading import export, lists
from tenantry.engine.service import Engine
from tenantry.rest.fairness.streams import Most, Streams, TooManyStreams
from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.postgres import database_url
from tests.support.memory import growing
from tests.support.waiting import eventually

CSV, NDJSON = {"Accept": "text/csv"}, {"Accept": "application/x-ndjson"}
ROWS = 5000


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with engine_with_app(tmp_path, url) as both:
        yield both


@pytest.fixture
async def editor(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "ed") as client:
        yield client


async def fill(engine: Engine, rows: int = ROWS, note: int = 100) -> None:
    def many(connection: sa.Connection) -> None:
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        text = f"substr('{'x' * note}', 1, {note})"
        connection.exec_driver_sql(f"INSERT INTO crm__kinds (region, code, note) {numbers} SELECT 'r', i, {text} FROM n")

    await engine._transactions.write(many)


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.slow
async def test_a_whole_table_comes_in_one_answer(
    world: tuple[Engine, str], editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "PART_BYTES", 20_000)
    await fill(world[0])
    lines = await editor.get(f"{DATA}/kinds?select=code,note", headers=NDJSON)
    table = await editor.get(f"{DATA}/kinds?select=code,note", headers=CSV)
    assert (lines.headers["content-type"], table.headers["content-type"]) == (
        "application/x-ndjson",
        "text/csv; charset=utf-8; header=present",
    )
    rows = [orjson.loads(line) for line in lines.text.splitlines()]
    assert rows == parsed(table.text) and len({row["code"] for row in rows}) == len(rows) == ROWS
    assert "link" not in lines.headers and not export.EXPORTS._open


@pytest.mark.slow
@pytest.mark.parametrize("form", [CSV, NDJSON], ids=["csv", "ndjson"])
async def test_a_large_table_is_sent_in_little_memory(
    form: dict[str, str], world: tuple[Engine, str], editor: httpx.AsyncClient
) -> None:
    """100 MB of rows, and at most a third of that: parts of 1 MiB in a few copies, and what a first export imports."""
    await fill(world[0], 100_000, 1000)
    size = 0
    with growing() as growth:
        async with editor.stream("GET", f"{DATA}/kinds?select=code,note", headers=form) as answer:
            async for chunk in answer.aiter_raw():
                size += len(chunk)
    assert size > 100_000_000
    assert growth.peak < 33_000_000


async def test_filters_orders_and_related_rows_hold(editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/accounts", json=[{"name": "acme"}, {"name": "b"}])
    await editor.post(f"{DATA}/contacts", json=[{"email": f"{n}@x", "age": n, "account_id": 1 + n % 2} for n in range(30)])
    query = "contacts?select=email,accounts(name)&age=gte.10&order=age.desc"
    whole = (await editor.get(f"{DATA}/{query}")).json()
    lines = (await editor.get(f"{DATA}/{query}", headers=NDJSON)).text.splitlines()
    table = parsed((await editor.get(f"{DATA}/{query}", headers=CSV)).text)
    assert [orjson.loads(line) for line in lines] == whole
    assert [{**row, "accounts": orjson.loads(row["accounts"])} for row in table] == whole
    first = await editor.get(f"{DATA}/{query}&limit=15", headers=CSV)
    second = await editor.get(first.links["next"]["url"], headers=CSV)
    assert parsed(first.text + second.text) == table and "next" not in second.links


async def test_csv_is_that_of_rfc_4180(editor: httpx.AsyncClient) -> None:
    row = {
        "region": 'a,"b"',
        "code": " =1+1",
        "note": "x\r\ny\nz",
        "big": "5",
        "price": "1.50",
        "ratio": 1.0,
        "extra": {"a": [None]},
    }
    await editor.post(f"{DATA}/kinds", json=row)
    await editor.post(f"{DATA}/kinds", json={"region": "b", "code": "", "extra": None, "order": -1})
    query = "select=region,code,note,big,price,ratio,extra,order&order=region"
    answer = await editor.get(f"{DATA}/kinds?{query}", headers=CSV)
    assert answer.text == (
        "region,code,note,big,price,ratio,extra,order\r\n"
        '"a,""b"""," =1+1","x\r\ny\nz",5,1.50,1.0,"{""a"":[null]}",\r\n'
        'b,"",,,,,,-1\r\n'
    )
    assert (await editor.get(f"{DATA}/kinds?region=eq.none&select=code", headers=CSV)).text == "code\r\n"
    assert (await editor.get(f"{DATA}/kinds?region=eq.none", headers=NDJSON)).text == ""


ACCEPTED = {
    "": "application/json", "*/*": "application/json", "text/html": "application/json", "text/csv": "text/csv",
    "application/json, text/csv": "application/json", "application/json;q=0.5, text/csv": "text/csv",
    "text/csv;q=0, */*": "application/json", "TEXT/CSV ; Q=1": "text/csv", "text/csv;q=nan": "application/json",
    "text/csv;q=²": "application/json", "a,b;c;q=,;;": "application/json", "application/x-ndjson;q=0.1": "application/x-ndjson",
}  # fmt: skip


@pytest.mark.slow
async def test_accept_chooses_the_form(editor: httpx.AsyncClient) -> None:
    for accept, expected in ACCEPTED.items():
        answer = await editor.get(f"{DATA}/contacts", headers={b"Accept": accept.encode()})
        assert answer.status_code == 200 and answer.headers["content-type"].partition(";")[0] == expected, accept


async def test_a_refusal_comes_before_the_first_row(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    for path, status in (("kinds?nope=eq.1", 400), ("nope", 404), ("kinds?limit=0", 400)):
        assert (await editor.get(f"{DATA}/{path}", headers=CSV)).status_code == status, path
    async with signed_in(world[1], "rea") as reader:
        assert (await reader.get(f"{DATA}/kinds", headers=NDJSON)).status_code == 403


@pytest.mark.slow
async def test_a_right_that_is_revoked_meanwhile_cuts_the_answer(
    world: tuple[Engine, str], editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "PART_BYTES", 1_000_000)
    await fill(world[0], 20_000, 1000)
    got = 0
    with pytest.raises(httpx.RemoteProtocolError):
        async with editor.stream("GET", f"{DATA}/kinds", headers=NDJSON) as answer:
            async for chunk in answer.aiter_bytes(1 << 16):
                if not got:
                    await world[0].set_roles("ed", [("crm", "reader")])
                got += len(chunk)
    assert got < 20_000_000 and not export.EXPORTS._open


@pytest.mark.slow
async def test_a_slow_reader_holds_no_transaction_and_no_thread(
    world: tuple[Engine, str], editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, served = world
    monkeypatch.setattr(export.EXPORTS, "_most", Most(3, 3, 2))
    await fill(engine, 20_000, 1000)
    host, port = served.removeprefix("http://").split(":")
    writers = []
    try:
        for _ in range(2):
            _, writer = await asyncio.open_connection(host, int(port), limit=1024)
            writers.append(writer)
            about = f"Host: x\r\nAccept: text/csv\r\nAuthorization: {editor.headers['Authorization']}"
            writer.write(f"GET {DATA}/kinds HTTP/1.1\r\n{about}\r\n\r\n".encode())
        await eventually(lambda: sum(export.EXPORTS._open.values()) >= 6)

        def open_transactions(connection: sa.Connection) -> int:
            if connection.dialect.name == "sqlite":
                return 0
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%%'"
            )
            return int(connection.exec_driver_sql(query).scalar_one())

        async def sockets_are_full() -> bool:
            return await engine._transactions.read(open_transactions, int) == 0

        await eventually(sockets_are_full)
        refused = await editor.get(f"{DATA}/kinds", headers=CSV)
        assert (refused.status_code, refused.json()["error"]) == (
            503,
            "2 streams of this environment are open already; try again later",
        )
        assert (await editor.get(f"{DATA}/kinds?limit=5", headers=CSV)).status_code == 200
    finally:
        for writer in writers:
            writer.transport.abort()
    await eventually(lambda: not export.EXPORTS._open)


@pytest.mark.slow
async def test_the_exact_number_of_rows_comes_on_demand(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    await fill(world[0], 2000)
    for path, expected in (
        ("kinds", "2000"),
        ("kinds?code=like.1*&limit=1", "1111"),
        ("kinds?code=eq.none", "0"),
        ("contacts", "0"),
    ):
        answer = await editor.get(f"{DATA}/{path}", headers={"Prefer": "count=exact"})
        assert (answer.headers["tenantry-count"], answer.headers["preference-applied"]) == (expected, "count=exact"), path
        assert "tenantry-count" not in (await editor.get(f"{DATA}/{path}")).headers
    exported = await editor.get(f"{DATA}/kinds", headers={**NDJSON, "Prefer": "handling=lenient, count=exact"})
    assert exported.headers["tenantry-count"] == "2000" and len(exported.text.splitlines()) == 2000
    second = (await editor.get(f"{DATA}/kinds?limit=900")).links["next"]["url"]
    assert (await editor.get(second, headers={"Prefer": "count=exact"})).headers["tenantry-count"] == "2000"
    refused = await editor.get(f"{DATA}/kinds", headers={"Prefer": "count=planned"})
    assert (refused.status_code, refused.json()["error"]) == (400, "Prefer: count=planned is not supported; it takes exact")


@pytest.mark.slow
async def test_a_count_that_takes_too_long_is_refused(
    world: tuple[Engine, str], editor: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantry.engine.data.reading.counting.COUNT_S", 0.002)
    await fill(world[0], 50_000)
    path = f"{DATA}/kinds?note=not.ilike.*a*b*c*&limit=1"
    refused = await editor.get(path, headers={"Prefer": "count=exact"})
    assert refused.status_code == 400
    assert (
        refused.json()["error"]
        == "Prefer: count=exact takes longer than 0.002 s here; filter by an indexed column, or leave it out"
    )
    assert (await editor.get(path)).status_code == 200


def test_streams_are_counted_by_engine_tenant_and_process() -> None:
    streams = Streams(Most(in_all=3, of_tenant=2, of_engine=1))
    leave = streams.enter("a", "a/1")
    streams.enter("a", "a/2")
    refused: dict[str, str] = {}
    for tenant, engine in (("b", "b/1"), ("a", "a/3"), ("c", "c/1")):
        try:
            streams.enter(tenant, engine)
        except TooManyStreams as halt:
            refused[engine] = str(halt)
    assert list(refused) == ["a/3", "c/1"]
    leave()
    leave()
    streams.enter("c", "c/1")
