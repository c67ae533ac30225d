"""Values of every type come back the same from SQLite and PostgreSQL: on insert, on change and on read, with one ETag."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.postgres import database_url

APP = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
version: 1.0.0
tables:
  - name: readings
    primaryKey: [id]
    columns:
      - {name: ratio, type: double}
      - {name: id, type: bigint, generated: true}
      - {name: big, type: bigint}
      - {name: extra, type: json}
      - {name: note, type: text}
  - name: names
    primaryKey: [name]
    columns: [{name: name, type: text}, {name: note, type: text}]
  - name: settings
    primaryKey: [id]
    columns: [{name: id, type: integer, default: 5}, {name: note, type: text, default: "50% of 'it'"}]
roles:
  editor: {readings: [read, write], names: [read, write], settings: [read, write]}
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def editor(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with engine_with_app(tmp_path, url, APP) as (_, served), signed_in(served, "ed") as client:
        yield client


BIG = "9007199254740993"
NUMBERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a double without a fraction": ({"ratio": 3}, {"ratio": 3.0}),
    "a zero below zero": ({"ratio": -0.0}, {"ratio": 0.0}),
    "a bigint after a double": ({"ratio": 0.5, "big": BIG}, {"ratio": 0.5, "big": BIG}),
    "a large number as JSON": ({"extra": 12345678901234567890}, {"extra": 12345678901234567890}),
    "a JSON number with a fraction of zero": ({"extra": 1.0}, {"extra": 1.0}),
    "a JSON text of digits": ({"extra": "0123"}, {"extra": "0123"}),
    "JSON that holds numbers": ({"extra": [1.0, -5, {"a": 1e3}]}, {"extra": [1.0, -5, {"a": 1000.0}]}),
}


@pytest.mark.parametrize(("given", "shown"), NUMBERS.values(), ids=NUMBERS.keys())
async def test_a_value_is_the_same_however_it_is_read(editor: httpx.AsyncClient, given: Any, shown: Any) -> None:
    inserted = await editor.post(f"{DATA}/readings", json=given)
    key = inserted.json()["id"]
    row = {"ratio": None, "big": None, "extra": None, "note": None, **shown, "id": key}
    assert key == "1"
    changed = await editor.patch(f"{DATA}/readings/1", json=given, headers={"If-Match": inserted.headers["etag"]})
    read = await editor.get(f"{DATA}/readings/1")
    listed = (await editor.get(f"{DATA}/readings")).content
    for answer in (inserted, changed, read):
        assert orjson.dumps(orjson.loads(answer.content), option=orjson.OPT_SORT_KEYS) == _sorted(row), answer.request.method
        assert answer.headers["etag"] == inserted.headers["etag"]
    assert _sorted(orjson.loads(listed)[0]) == _sorted(row)


async def test_the_default_of_an_integer_key_counts(editor: httpx.AsyncClient) -> None:
    made = await editor.post(f"{DATA}/settings", json={})
    assert made.json() == {"id": 5, "note": "50% of 'it'"}


ODD_KEYS = ("k0\nv", "k\n", "\r\n", "a/b", "..", ".", "%0A", "a?b#c", "\u2028", "\x7f", " ", "ä,b", "openapi.json", "changes/")


@pytest.mark.parametrize("key", ODD_KEYS, ids=ascii)
async def test_a_row_is_reached_by_any_key(editor: httpx.AsyncClient, key: str) -> None:
    assert (await editor.post(f"{DATA}/names", json={"name": key})).status_code == 201
    row = httpx.URL(f"{editor.base_url}{DATA}/names/", raw_path=f"{DATA}/names/{_quoted(key)}".encode())
    assert (await editor.patch(row, json={"note": "n"})).json() == {"name": key, "note": "n"}
    assert (await editor.get(row)).json() == {"name": key, "note": "n"}
    assert (await editor.head(row)).status_code == 200
    allowed = (await editor.options(row)).headers["allow"]
    assert {"GET", "HEAD", "PATCH", "DELETE"} <= set(allowed.split(", "))
    assert (await editor.delete(row)).status_code == 204


@pytest.mark.slow
async def test_texts_are_ordered_and_compared_by_code_points(editor: httpx.AsyncClient) -> None:
    for note in ("b", "B", "a", "é", "Z", "_"):
        await editor.post(f"{DATA}/readings", json={"note": note})

    async def notes(query: str) -> list[str]:
        return [row["note"] for row in (await editor.get(f"{DATA}/readings?select=note&{query}")).json()]

    assert await notes("order=note") == ["B", "Z", "_", "a", "b", "é"]
    assert await notes("order=note&note=gt.Z") == ["_", "a", "b", "é"]
    assert await notes("order=note&note=ilike.B") == ["B", "b"]
    assert await notes("note=ilike.%C3%89") == []


@pytest.mark.slow
async def test_pages_ordered_by_a_long_text_hold_every_row_once(editor: httpx.AsyncClient) -> None:
    texts = [f"{'x' * 30_000}{number}" for number in range(6)] + ["y" * 40_000, "z"]
    for text in texts:
        await editor.post(f"{DATA}/readings", json={"note": text})
    for order in ("note", "note.desc"):
        found, url = [], f"{DATA}/readings?select=note&order={order}&limit=1"
        while url:
            page = await editor.get(url)
            assert page.status_code == 200, page.text[:300]
            found += [row["note"] for row in page.json()]
            url = page.links.get("next", {}).get("url", "")
            assert len(url) < 2000
        assert found == sorted(texts, reverse=order.endswith("desc"))


@pytest.mark.slow
async def test_a_page_goes_on_where_the_row_with_a_long_text_is_gone(editor: httpx.AsyncClient) -> None:
    for number in range(4):
        await editor.post(f"{DATA}/readings", json={"note": f"{'x' * 5_000}{number}"})
    first = await editor.get(f"{DATA}/readings?select=id&order=note&limit=2")
    await editor.delete(f"{DATA}/readings/2")
    rest = await editor.get(first.links["next"]["url"])
    last = await editor.get(rest.links["next"]["url"])
    # Rows of the same beginning come again; none is left out.
    assert [row["id"] for row in (*rest.json(), *last.json())] == ["1", "3", "4"]


async def test_a_body_of_too_many_arrays_is_refused_before_it_is_parsed(editor: httpx.AsyncClient) -> None:
    body = b'{"extra": [' + b"[]," * 50_000 + b"1]}"
    answer = await editor.post(f"{DATA}/readings", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, "body: holds more than 50000 arrays and objects")


async def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(editor: httpx.AsyncClient) -> None:
    body = b'{"extra": [' + b"1," * 200_001 + b"1]}"
    answer = await editor.post(f"{DATA}/readings", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, "body: holds more than 200000 values")


async def test_commas_of_a_text_are_no_values(editor: httpx.AsyncClient) -> None:
    note = 'a "quoted, one",\\' + "," * 200_001
    answer = await editor.post(f"{DATA}/readings", json={"note": note})
    assert (answer.status_code, answer.json()["note"]) == (201, note)


def _quoted(text: str) -> str:
    """Every byte in its percent form: a client must not take dots for folders."""
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
