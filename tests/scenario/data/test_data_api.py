"""The rows of an installed app behind a real server, on SQLite and on PostgreSQL: the same answers on both."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tests.scenario.data_world import DATA, PASSWORD, engine_with_app, signed_in
from tests.scenario.postgres import database_url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str | None:
    return database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None


@pytest.fixture
async def world(url: str | None, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_with_app(tmp_path, url) as both:
        yield both


@pytest.fixture
async def editor(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "ed") as client:
        yield client


async def _rows(client: httpx.AsyncClient, query: str, table: str = "contacts") -> list[Any]:
    answer = await client.get(f"{DATA}/{table}?{query}")
    assert answer.status_code == 200, answer.text
    rows: list[Any] = answer.json()
    return rows


async def _people(client: httpx.AsyncClient) -> None:
    ages = [("Ada", 36), ("bob", 18), ("a*b", None), ("A_d%", 18), ("eve,x", 99)]
    given = [{"email": f"{name}@x", "age": age, "active": age != 99} for name, age in ages]
    assert (await client.post(f"{DATA}/contacts", json=given)).status_code == 201


FILTERS = {
    "equal": ("age=eq.18", [2, 4]),
    "not equal leaves NULL out": ("age=neq.18", [1, 5]),
    "not equal, negated": ("age=not.neq.18", [2, 4]),
    "greater": ("age=gt.36", [5]),
    "greater or equal": ("age=gte.36", [1, 5]),
    "less": ("age=lt.36", [2, 4]),
    "less or equal": ("age=lte.36", [1, 2, 4]),
    "two of one column": ("age=gt.18&age=lt.99", [1]),
    "one of a list": ("age=in.(36,99)", [1, 5]),
    "one of no list": ("age=in.()", []),
    "none of a list": ("age=not.in.(36,99)", [2, 4]),
    "a quoted value of a list": ('email=in.("eve,x@x",Ada@x)', [1, 5]),
    "NULL": ("age=is.null", [3]),
    "not NULL": ("age=not.is.null", [1, 2, 4, 5]),
    "not_null": ("age=is.not_null", [1, 2, 4, 5]),
    "a truth": ("active=is.false", [5]),
    "an equal truth": ("active=eq.true", [1, 2, 3, 4]),
    "a pattern knows case": ("email=like.a*", [3]),
    "a pattern with a percent sign": ("email=like.A%25", [1, 4]),
    "a pattern of one character": ("email=like.___@x", [1, 2, 3]),
    "a pattern with an escaped sign": ("email=like.A\\_d\\%25*", [4]),
    "a pattern without case": ("email=ilike.ada*", [1]),
    "no pattern": ("email=not.like.*b*", [1, 4, 5]),
    "or": ("or=(age.gt.90,email.eq.bob@x)", [2, 5]),
    "and within or": ("or=(age.is.null,and(age.eq.18,email.like.b*))", [2, 3]),
    "a negated group": ("not.or=(age.lt.90,age.is.null)", [5]),
    "a quoted value in a group": ('or=(email.eq."eve,x@x")', [5]),
    "a list in a group": ("and=(age.in.(18,99),active.is.true)", [2, 4]),
    "a negation in a group": ("or=(age.not.is.null)", [1, 2, 4, 5]),
    "a time before now": ("created=lt.2000-01-01T00:00:00Z", []),
    "an injection is a value": ("email=eq.' OR 1=1 --", []),
}


@pytest.mark.slow
async def test_each_filter_finds_its_rows(editor: httpx.AsyncClient) -> None:
    await _people(editor)
    for name, (query, expected) in FILTERS.items():
        assert [row["id"] for row in await _rows(editor, f"{query}&order=id")] == expected, name


BAD_QUERIES = {
    "an unknown column": ("nope=eq.1", "nope: there is no such column"),
    "no operator": ("age=18", "age: must be an operator, a point and a value"),
    "an unknown operator": ("age=fts.18", "age: must be an operator"),
    "a pattern over a number": ("age=like.1*", "age: must be an operator"),
    "no number": ("age=eq.old", "age: 'old' is not a whole number"),
    "a number too large": ("age=eq.99999999999", "age: '99999999999' is not a whole number"),
    "no truth": ("active=eq.yes", "active: 'yes' is not true or false"),
    "no time": ("created=gt.yesterday", "created: 'yesterday' is not a time such as"),
    "is of a value": ("age=is.5", "age: is takes null, not_null"),
    "no list": ("age=in.1,2", "age: must be a list in parentheses"),
    "an open quote": ('email=in.("a)', "email: a quote is not closed"),
    "an open parenthesis": ("or=(age.in.(1,2)", "or: "),
    "an empty group": ("or=()", "or: must hold a condition"),
    "an unknown column in a group": ("or=(nope.eq.1)", "or: there is no column nope"),
    "groups too deep": ("or=" + "(or" * 9 + "(age.eq.1)" + ")" * 9, "or: is nested deeper than 8 levels"),
    "too many conditions": ("or=(" + ",".join(["age.eq.1"] * 101) + ")", "or: more than 100 conditions"),
    "a long pattern": ("email=like." + "a" * 300, "email: a pattern has at most 256 characters"),
    "a pattern of wildcards": ("email=like." + "*a" * 17, "email: a pattern has at most 16 wildcards"),
    "a pattern that ends in an escape": ("email=like.a\\", "email: a pattern does not end in a single backslash"),
    "NUL": ("email=eq.%00", "email: '\\x00' is not a string"),
    "limit 0": ("limit=0", "limit: must be a whole number from 1 to 1000"),
    "limit too large": ("limit=1001", "limit: must be"),
    "limit twice": ("limit=1&limit=2", "limit: is given twice"),
    "select of an unknown column": ("select=id,nope", "select: there is no column 'nope'"),
    "order by an unknown column": ("order=nope", "order: there is no column 'nope'"),
    "order by no direction": ("order=age.up", "order: 'age.up' is not an order"),
    "order by a column twice": ("order=age,age.desc", "order: names a column twice"),
    "a token that is none": ("continue=abc", "continue: is not a token"),
    "a token of another order": (
        "continue=" + base64.urlsafe_b64encode(b'["age.asc.nullslast",["1"]]').decode(),
        "continue: is not a token",
    ),
    "a token with another type": (
        "continue=" + base64.urlsafe_b64encode(b'["id.asc.nullslast",["x"]]').decode(),
        "continue: 'x' is not a whole number",
    ),
    "offset, which is not supported": ("offset=5", "offset: there is no such column"),
}


@pytest.mark.slow
async def test_each_bad_query_is_refused_by_name(editor: httpx.AsyncClient) -> None:
    for name, (query, told) in BAD_QUERIES.items():
        answer = await editor.get(f"{DATA}/contacts?{query}")
        assert (answer.status_code, answer.json()["error"][: len(told)]) == (400, told), name


@pytest.mark.slow
async def test_pages_of_any_order_hold_every_row_once(editor: httpx.AsyncClient) -> None:
    numbers = random.Random(5)
    await editor.post(f"{DATA}/contacts", json=[{"email": f"{n}@x", "age": numbers.choice([None, 1, 2, 3])} for n in range(60)])
    await editor.post(f"{DATA}/contacts", json={"email": "late@x", "created": "2026-01-01T00:00:00.5Z"})
    for order in (
        "",
        "age",
        "age.desc",
        "age.asc.nullsfirst",
        "age.desc.nullslast",
        "created,email.desc",
        "active,age,email",
        "created.desc",
    ):
        whole = [row["id"] for row in await _rows(editor, f"order={order}")]
        paged: list[int] = []
        url = f"{DATA}/contacts?order={order}&limit=7"
        while url:
            answer = await editor.get(url)
            paged += [row["id"] for row in answer.json()]
            url = answer.links.get("next", {}).get("url", "")
        assert paged == whole and len(set(paged)) == 61, order


async def test_rows_that_come_and_go_between_pages_move_no_other(editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/contacts", json=[{"email": f"{n:02}@x"} for n in range(10)])
    first = await editor.get(f"{DATA}/contacts?order=email&limit=5")
    await editor.delete(f"{DATA}/contacts/1")
    await editor.post(f"{DATA}/contacts", json={"email": "001@x"})
    rest = await editor.get(first.links["next"]["url"])
    assert [row["email"] for row in rest.json()] == [f"{n:02}@x" for n in range(5, 10)]


@pytest.mark.slow
async def test_every_type_comes_back_as_it_was_given(editor: httpx.AsyncClient) -> None:
    row = {
        "region": "a,b", "code": "ü/%2F", "big": "9223372036854775807", "price": "12345678.90", "ratio": 0.1, "day": "2026-02-28",
        "moment": "2026-01-31T12:00:00.123456Z",
        "extra": {"a": [1, None, "ü"]}, "picture": base64.b64encode(bytes(range(99))).decode(),
        "token": "123e4567-e89b-42d3-a456-426614174000", "note": "line\nline 'quoted' \"too\"", "order": -1,
    }  # fmt: skip
    inserted = await editor.post(f"{DATA}/kinds", json=row)
    assert (inserted.status_code, inserted.json()) == (201, row)
    read = await editor.get(f"{DATA}/kinds/a%2Cb,%C3%BC%2F%252F")
    assert read.json() == row and read.headers["etag"] == inserted.headers["etag"]
    unchanged = await editor.get(f"{DATA}/kinds/a%2Cb,%C3%BC%2F%252F", headers={"If-None-Match": read.headers["etag"]})
    assert unchanged.status_code == 304
    for query in (
        "big=eq.9223372036854775807", "price=eq.12345678.9", "price=gt.12345678.89", "ratio=eq.0.1", "day=lte.2026-02-28",
        "moment=eq.2026-01-31T13:00:00.123456%2B01:00", "token=eq.123E4567-E89B-42D3-A456-426614174000", "and=(order.eq.-1)",
        "extra=not.is.null", "note=like.line*", "select=code,order",
    ):  # fmt: skip
        assert len(await _rows(editor, query, "kinds")) == 1, query
    assert await _rows(editor, "select=order,code", "kinds") == [{"order": -1, "code": "ü/%2F"}]


@pytest.mark.slow
async def test_a_time_of_a_whole_second_is_found_whoever_wrote_it(editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/contacts", json=[{"email": "default@x"}])
    (stored,) = [row["created"] for row in await _rows(editor, "select=created")]
    await editor.post(f"{DATA}/contacts", json=[{"email": "given@x", "created": stored}])
    for operator, found in (("eq", 2), ("gte", 2), ("lte", 2), ("gt", 0), ("lt", 0), ("neq", 0)):
        assert len(await _rows(editor, f"created={operator}.{stored}")) == found, operator
    assert len(await _rows(editor, f"created=in.({stored})")) == 2


BAD_ROWS: dict[str, tuple[str, Any, str]] = {
    "no object": ("contacts", 5, "body: must be a JSON object"),
    "an unknown column": ("contacts", {"email": "a@x", "nope": 1}, "nope: there is no such column in contacts"),
    "a missing column": ("contacts", {"age": 1}, "email: is required"),
    "NULL where it may not be": ("contacts", {"email": None}, "email: must not be null"),
    "a generated column": ("contacts", {"id": 5, "email": "a@x"}, "id: is generated by the database"),
    "a string for a number": ("contacts", {"email": "a@x", "age": "5"}, "age: must be a whole number from -2147483648"),
    "a number too large": ("contacts", {"email": "a@x", "age": 2**31}, "age: must be a whole number"),
    "a truth for a number": ("contacts", {"email": "a@x", "age": True}, "age: must be a whole number"),
    "a string too long": ("contacts", {"email": "a@" + "x" * 40}, "email: must be a string of at most 40 characters"),
    "a string with NUL": (
        "contacts",
        {"email": "a@\0"},
        "email: must be a string of at most 40 characters, without the character U+0000",
    ),
    "a number for a truth": ("contacts", {"email": "a@x", "active": 1}, "active: must be true or false"),
    "no time": ("contacts", {"email": "a@x", "created": "soon"}, "created: must be a time such as"),
    "a check": ("contacts", {"email": "ax"}, "email: breaks check has_at: email LIKE '%@%'"),
    "no parent": ("contacts", {"email": "a@x", "account_id": 9}, "account_id: there is no such row in"),
    "a row too many of a unique value": ("accounts", [{"name": "a"}, {"name": "a"}], "[1].name: there is a row with this value"),
    "the second of many": ("accounts", [{"name": "a"}, {}], "[1].name: is required"),
    "no rows": ("accounts", [], "body: must hold 1 to 1000 rows"),
    "too many rows": ("accounts", [{}] * 1001, "body: must hold 1 to 1000 rows"),
    "a bigint too large": ("kinds", {"region": "", "code": "", "big": str(2**63)}, "big: must be a whole number"),
    "a bigint that is none": ("kinds", {"region": "", "code": "", "big": "1_0"}, "big: must be a whole number"),
    "a decimal of too many digits": (
        "kinds",
        {"region": "", "code": "", "price": "1.001"},
        "price: must be a number of at most 10",
    ),
    "a decimal that JSON rounded": ("kinds", {"region": "", "code": "", "price": 0.1234567890123456}, "price: must be a number"),
    "no finite decimal": ("kinds", {"region": "", "code": "", "price": "NaN"}, "price: must be a number"),
    "no date": ("kinds", {"region": "", "code": "", "day": "2026-02-30"}, "day: must be a date such as"),
    "no base64": ("kinds", {"region": "", "code": "", "picture": "!"}, "picture: must be bytes as base64"),
    "no uuid": ("kinds", {"region": "", "code": "", "token": 5}, "token: must be a UUID such as"),
    "JSON too deep": (
        "kinds",
        {"region": "", "code": "", "extra": eval("[" * 70 + "]" * 70)},
        "extra: must be JSON of at most 64",
    ),
    "a key part that is missing": ("kinds", {"region": ""}, "code: is required"),
}


@pytest.mark.slow
async def test_each_bad_row_is_refused_with_its_column_and_nothing_stays(editor: httpx.AsyncClient) -> None:
    for name, (table, body, told) in BAD_ROWS.items():
        answer = await editor.post(f"{DATA}/{table}", json=body)
        assert (answer.status_code, answer.json()["error"][: len(told)]) == (400, told), name
        assert await _rows(editor, "", table) == [], name


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def test_keys_go_on_after_those_of_seeds_and_cannot_be_given(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = database_url(request.getfixturevalue("server")) if database == "postgresql" else None
    seeds = {"contacts": [{"id": 3, "email": "a@x"}, {"id": 41, "email": "b@x"}]}
    async with engine_with_app(tmp_path, url, seeds=seeds) as (_, served), signed_in(served, "ed") as editor:
        given = await editor.post(f"{DATA}/contacts", json={"id": 42, "email": "c@x"})
        assert (given.status_code, given.json()["error"]) == (400, "id: is generated by the database")
        made = await editor.post(f"{DATA}/contacts", json=[{"email": "c@x"}, {"email": "d@x"}])
        assert [row["id"] for row in made.json()] == [42, 43]


@pytest.mark.slow
async def test_a_row_is_changed_by_whoever_saw_its_last_state(editor: httpx.AsyncClient) -> None:
    row = await editor.post(f"{DATA}/contacts", json={"email": "a@x", "age": 1})
    path, tag = f"{DATA}/contacts/{row.json()['id']}", {"If-Match": row.headers["etag"]}
    answers = await asyncio.gather(*(editor.patch(path, json={"age": 10 + n}, headers=tag) for n in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]
    assert (await editor.delete(path, headers=tag)).status_code == 412
    assert (await editor.patch(path, json={"age": None})).json()["age"] is None
    assert (await editor.patch(path, json={"id": 5})).json() == {"error": "id: is generated by the database"}
    assert (await editor.patch(path, json={"email": "none"})).json()["error"].startswith("email: breaks check has_at")
    assert (await editor.patch(path, json={"account_id": 5})).json()["error"].startswith("account_id: there is no such row")
    assert (await editor.patch(path, json={})).status_code == 200
    assert (await editor.delete(path, headers={"If-Match": "*"})).status_code == 204
    assert (await editor.delete(path)).status_code == 404
    assert (await editor.patch(path, json={})).status_code == 404


@pytest.mark.slow
async def test_a_row_that_others_reference_stays(editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/accounts", json={"name": "a"})
    await editor.post(f"{DATA}/contacts", json={"email": "a@x", "account_id": 1})
    refused = await editor.delete(f"{DATA}/accounts/1")
    assert refused.status_code == 400 and "reference" in refused.json()["error"]
    assert len(await _rows(editor, "", "accounts")) == 1


BAD_KEYS = {
    "another table's": ("contacts/99", 404),
    "no number": ("contacts/x", 400),
    "too few parts": ("kinds/a", 400),
    "too many parts": ("kinds/a,b,c", 400),
    "no UTF-8": ("kinds/%FF,a", 400),
    "none": ("contacts/", 400),
}


@pytest.mark.slow
async def test_each_bad_key_is_refused(editor: httpx.AsyncClient) -> None:
    for name, (path, status) in BAD_KEYS.items():
        assert (await editor.get(f"{DATA}/{path}")).status_code == status, name


ACCESS = {
    "a reader reads": ("rea", "GET", "/contacts", 200),
    "a reader does not write": ("rea", "POST", "/contacts", 403),
    "a reader does not change": ("rea", "PATCH", "/contacts/1", 403),
    "a reader does not delete": ("rea", "DELETE", "/contacts/1", 403),
    "a reader of one table does not read another": ("rea", "GET", "/accounts", 403),
    "a writer does not read": ("wri", "GET", "/contacts", 403),
    "a writer does not read one": ("wri", "GET", "/contacts/1", 403),
    "without a role": ("none", "GET", "/contacts", 403),
    "the administrator without a role": ("admin", "GET", "/contacts", 403),
    "an unknown table before the role": ("none", "GET", "/nope", 404),
    "an app that is not installed": ("ed", "GET", "/../nope/contacts", 404),
    "an editor at the administration": ("ed", "GET", "/../../admin/apps", 403),
}


@pytest.mark.slow
async def test_who_may_do_what(world: tuple[Engine, str]) -> None:
    for name, (username, method, path, status) in ACCESS.items():
        async with httpx.AsyncClient(base_url=world[1], auth=(username, PASSWORD)) as client:
            answer = await client.request(method, f"{DATA}{path}", json={"email": "a@x"} if method in ("POST", "PATCH") else None)
        assert answer.status_code == status, name
    async with httpx.AsyncClient(base_url=world[1]) as client:
        assert (await client.get(f"{DATA}/nope")).status_code == 401
        assert (await client.get(f"{DATA}/contacts", auth=("ed", "wrong password"))).status_code == 401


async def test_who_may_only_write_is_told_the_key_alone(world: tuple[Engine, str]) -> None:
    async with signed_in(world[1], "wri") as writer:
        inserted = await writer.post(f"{DATA}/contacts", json={"email": "a@x"})
        assert (inserted.status_code, inserted.json()) == (201, {"id": 1})
        changed = await writer.patch(f"{DATA}/contacts/1", json={"age": 5})
        assert (changed.status_code, changed.content) == (204, b"")


@pytest.mark.slow
async def test_a_grant_counts_from_the_next_request_on(world: tuple[Engine, str]) -> None:
    engine, url = world
    async with signed_in(url, "none") as client:
        assert (await client.get(f"{DATA}/contacts")).json() == {"error": "no role of app crm is granted to you"}
        await engine.set_roles("none", [("crm", "reader")])
        assert (await client.get(f"{DATA}/contacts")).status_code == 200
        await engine.set_roles("none", [("crm", "no such role")])
        assert (await client.get(f"{DATA}/contacts")).status_code == 403
        await engine.set_roles("none", [("crm", "reader")])
        await engine.uninstall("crm")
        assert (await client.get(f"{DATA}/contacts")).json() == {"error": "no app crm is installed"}


async def _grant_less(engine: Engine) -> None:
    await engine.set_roles("ed", [("crm", "no such role")])


async def _change_password(engine: Engine) -> None:
    await engine.set_password("ed", Password(clear="another password"))


async def _delete(engine: Engine) -> None:
    await engine.delete_identity("ed")


async def _uninstall(engine: Engine) -> None:
    await engine.uninstall("crm")


REVOKED = {
    "a grant": (_grant_less, 403),
    "a password": (_change_password, 401),
    "an identity": (_delete, 401),
    "an app": (_uninstall, 404),
}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["token", "password"])
@pytest.mark.parametrize("what", REVOKED)
async def test_what_another_process_revokes_is_refused_at_the_next_request(
    what: str, by: str, url: str | None, editor: httpx.AsyncClient, tmp_path: Path
) -> None:
    revoke, status = REVOKED[what]
    if by == "password":
        del editor.headers["Authorization"]
        editor.auth = httpx.BasicAuth("ed", PASSWORD)
    row = {"email": "a@x"}
    assert (await editor.post(f"{DATA}/contacts", json=row)).status_code == 201
    other = await Engine.open(tmp_path / "data", database_url=url)
    try:
        await revoke(other)
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/1", None),
            ("POST", "", {"email": "b@x"}),
            ("PATCH", "/1", row),
            ("DELETE", "/1", None),
        ):
            assert (await editor.request(method, f"{DATA}/contacts{path}", json=body)).status_code == status, method
    finally:
        await other.close()


@pytest.mark.slow
async def test_the_description_tells_what_the_role_reaches(world: tuple[Engine, str]) -> None:
    told = {}
    for username in ("ed", "rea", "wri", "none"):
        async with signed_in(world[1], username) as client:
            paths = (await client.get(f"{DATA}/openapi.json")).json()["paths"]
            told[username] = {path: sorted(set(methods) - {"parameters"}) for path, methods in paths.items()}
    assert told["none"] == {}
    assert told["rea"] == {"/contacts": ["get"], "/contacts/changes": ["get"], "/contacts/{key}": ["get"]}
    assert told["wri"] == {"/contacts": ["post"], "/contacts/{key}": ["delete", "patch"]}
    assert sorted(told["ed"]) == sorted(
        f"/{name}{key}" for name in ("accounts", "contacts", "kinds") for key in ("", "/changes", "/{key}")
    )


async def test_a_body_too_large_is_refused(editor: httpx.AsyncClient) -> None:
    answer = await editor.post(f"{DATA}/contacts", content=b" " * ((8 << 20) + 1))
    assert answer.status_code == 413


@pytest.mark.slow
async def test_a_page_of_large_rows_ends_early_and_goes_on(editor: httpx.AsyncClient) -> None:
    for number in range(4):
        body = {"region": "r", "code": str(number), "note": "x" * (4 << 20)}
        assert (await editor.post(f"{DATA}/kinds", json=body)).status_code == 201
    first = await editor.get(f"{DATA}/kinds")
    assert [row["code"] for row in first.json()] == ["0", "1"]
    second = await editor.get(first.links["next"]["url"])
    assert [row["code"] for row in second.json()] == ["2", "3"] and not second.links
