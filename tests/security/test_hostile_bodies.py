"""Hostile bodies and headers for rows: arrays, NDJSON, Prefer and on_conflict. No 5xx, and nothing stays of a refused body."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tenantry.engine.service import Engine
from tests.scenario.data_world import DATA, signed_in
from tests.security.places import PLACES, engine_at
from tests.support.turns import turn

REQUESTS = 250
SEED = turn("hostile bodies", 8)
TABLES = ("accounts", "contacts", "kinds", "nope", "Accounts", "accounts%00", "..")
COLUMNS = (
    *("id", "name", "email", "age", "account_id", "active", "created", "region", "code", "big", "price", "ratio", "day"),
    *("moment", "extra", "picture", "token", "note", "order", "", "nope", "__proto__", "a\0b", "value_0", "x" * 300, "%s", ":a"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**40, 0.1, 1e308, -0.0, "", "a", "a@x", "b@x", "\0"),
    *("x" * 41, "x" * 5000, "2026-02-30", "2026-01-31", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "NaN"),
    *("1e400", "1_0", "٣", "AAEC", "!", "123e4567-e89b-42d3-a456-426614174000", [], {}, [[[]]], {"a": [1]}, "\u202e", "'; --"),
    *("\U0010ffff", "%", "{}", "$1", "%(value_0)s", "?"),
)
PREFER = (
    *("return=minimal", "return=representation", "return=headers-only", "return=", "resolution=merge-duplicates"),
    *("resolution=ignore-duplicates", "resolution", "=", ",,,;;;", "return=minimal;resolution=merge-duplicates", "x" * 3000),
    *("return=minimal, resolution=merge-duplicates", "count=exact", "wait=5", "tx=rollback", "missing=default", "\xe9", "\t"),
)
CONFLICTS = ("email", "name", "id", "region,code", "code,region", "region", "nope", "", ",", "email,email", "*", "%00", "a" * 999)
TYPES = (
    *("application/json", "application/x-ndjson", "APPLICATION/X-NDJSON;charset=utf-16", "text/csv", "", "application/x-ndjson,"),
    "multipart/form-data",
)
RAW = (
    *(
        b"",
        b"\n",
        b"\0",
        b"[",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"5",
        b'"x"',
        b"[null]",
        b"[[]]",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"{}{}",
    ),
    *(b"[" * 3000, b'{"a":' * 3000, b'{"name":"\\ud800"}', b'{"name":"a","name":"b"}', b'{"name":"a"}\r{"name":"b"}', b"NaN"),
    *(b'{"name":"a"}\n\n\n{"name":"a"}', b'{"name":"q"}\nnull', b"1e999999", b"[" + b"{}," * 2000 + b"{}]", b'{"name":\n"a"}'),
)


@pytest.fixture(params=PLACES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Engine, httpx.AsyncClient]]:
    async with engine_at(request.param, tmp_path, request) as (engine, served), signed_in(served, "ed") as client:
        yield engine, client


class Requests:
    """Requests of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self) -> tuple[str, str, bytes, list[tuple[bytes, bytes]]]:
        """Method, path, body and headers."""
        draw = self._random
        table = draw.choice(TABLES[:3] if draw.random() < 0.95 else TABLES)
        path = f"{DATA}/{table}"
        method = draw.choice(("POST", "POST", "POST", "PATCH", "DELETE"))
        path += "" if method == "POST" else draw.choice(("/1", "/a,b", "/", "/%FF", "/99999999999999999999"))
        if draw.random() < 0.3:
            path += f"?on_conflict={draw.choice(CONFLICTS)}" + ("&on_conflict=email" if draw.random() < 0.1 else "")
        headers = [(b"content-type", draw.choice(TYPES[:2] if draw.random() < 0.8 else TYPES).encode())]
        headers += [(b"prefer", draw.choice(PREFER).encode("latin-1").strip()) for _ in range(draw.choice((0, 0, 1, 2)))]
        return method, path, self._body(headers[0][1], table), headers

    def _body(self, kind: bytes, table: str) -> bytes:
        draw = self._random
        if draw.random() < 0.2:
            return draw.choice(RAW)
        rows = [self._row(table) for _ in range(draw.choice((1, 2, 5, 30)))]
        spelled = [json.dumps(row).encode() for row in rows]
        if draw.random() < 0.1:
            spelled.insert(draw.randrange(len(spelled) + 1), draw.choice(RAW))
        if kind.startswith(b"application/x-nd"):
            return b"\n".join(spelled)
        return spelled[0] if len(spelled) == 1 else b"[" + b",".join(spelled) + b"]"

    def _row(self, table: str) -> Any:
        draw = self._random
        good: dict[str, Any] = {"name": f"n{draw.random()}"}
        if table == "contacts":
            good = {"email": draw.choice((f"{draw.random()}@x", f"{draw.random()}@x", "a@x")), "age": draw.choice((None, 5))}
        if table == "kinds":
            good = {"region": "r", "code": f"{draw.random()}", "extra": draw.choice(VALUES[:12])}
        if draw.random() < 0.75:
            return good
        return good | {draw.choice(COLUMNS): draw.choice(VALUES) for _ in range(draw.choice((1, 1, 3)))}


def counts(engine: Engine) -> tuple[int, ...]:
    """Return the number of rows in each table, by the database itself: it is asked after each refusal."""
    with engine._database.reading() as connection:
        tables = [sa.text(f"SELECT count(*) FROM crm__{table}") for table in ("accounts", "contacts", "kinds")]
        return tuple(connection.execute(each).scalar_one() for each in tables)


@pytest.mark.slow
async def test_hostile_rows_are_refused_and_nothing_of_them_stays(world: tuple[Engine, httpx.AsyncClient]) -> None:
    engine, editor = world
    requests, statuses = Requests(SEED), dict[int, int]()
    before = counts(engine)
    for _ in range(REQUESTS):
        method, path, body, headers = requests.next()
        answer = await editor.request(method, path, content=body, headers=headers)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (method, path, body[:300], headers, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"]
            assert counts(engine) == before, (method, path, body[:300], headers)
        else:
            before = counts(engine)
    assert statuses[201] >= REQUESTS / 20, statuses
    assert statuses[400] >= REQUESTS / 4, statuses
