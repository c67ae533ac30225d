"""Hostile requests for rows: related tables, counts, forms of lists and live rows. No 5xx, and every refusal says why."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tenantry.engine.service import Engine
from tests.campaigns.scale import at_full
from tests.scenario.data_world import DATA, signed_in
from tests.security.places import PLACES, engine_at

REQUESTS = at_full(20_000, otherwise=1500)
TOKENS = (
    *(
        "contacts",
        "accounts",
        "kinds",
        "nope",
        "id",
        "email",
        "account_id",
        "order",
        "*",
        "",
        "a" * 70,
        "contacts__x",
        "crm__contacts",
    ),
    *(
        "(",
        ")",
        ",",
        "!",
        "!one",
        "!many",
        "!account_id",
        ":",
        "x:",
        ".",
        "(id)",
        "(*)",
        "()",
        "accounts(name)",
        "contacts(email,id)",
    ),
    *("\0", "\ud7ff", "é", "'", '"', "\\", "%", ";", "--", " ", "\r\n", "9" * 40, "-1", "1e999", "NaN", "null", "true", "😀"),
    *(
        "eq.1",
        "in.(1,2)",
        "like.*",
        "is.null",
        "not.gt.3",
        "or=(id.eq.1)",
        "(" * 30,
        ")" * 30,
        "(id," * 12,
        "accounts(contacts(" * 5,
    ),
)
HEADERS = {
    "Accept": (
        "text/csv", "application/x-ndjson", "*/*", "text/event-stream", "text/csv;q=", ";;;", ",,,", "text/csv;q=1e9", "\xe9",
        "text/csv;q=0.000000000001,application/x-ndjson;q=٣".encode().decode("latin-1"),
    ),
    "Prefer": ("count=exact", "count", "count=", "COUNT=EXACT", 'count="exact"', "count=exact;x", "count=none", ",=,", "\xff"),
    "Last-Event-ID": ("0123456789abcdef-1", "-", "x" * 3000, "0123456789abcdef-99999999999999999999", "\xb2", "EPOCH-0"),
    "If-None-Match": ("*", '"-"', '"a-b-c"', "W/", ",", "\xe9"),
}  # fmt: skip


@pytest.fixture(params=PLACES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    async with engine_at(request.param, tmp_path, request) as both:
        yield both


def hostile(chance: random.Random) -> tuple[str, dict[bytes, bytes]]:
    """A path with a query, and headers."""

    def words(most: int) -> str:
        return "".join(chance.choice(TOKENS) for _ in range(chance.randint(0, most)))

    table = chance.choice(("contacts", "accounts", "kinds", "nope", words(2)))
    tail = chance.choice(("", "", "", "/1", "/changes", "/%63hanges", "/changes/1", f"/{quote(words(2), safe='')}"))
    names = chance.choices(("select", "order", "limit", "continue", "id", "and", "or", "email", words(1)), k=chance.randint(0, 3))
    query = "&".join(f"{quote(name, safe='')}={quote(words(8), safe='(),.!:*')}" for name in names)
    headers = {name: chance.choice(values) for name, values in HEADERS.items() if chance.random() < 0.4}
    raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    return f"{DATA}/{quote(table, safe='')}{tail}?{query}", raw


async def ask(client: httpx.AsyncClient, path: str, headers: dict[bytes, bytes]) -> tuple[int, str]:
    """The status, and the error that it comes with. A stream is left after its first bytes."""
    async with client.stream("GET", path, headers=headers) as answer:
        if answer.status_code < 400:
            return answer.status_code, ""
        await answer.aread()
        return answer.status_code, str(answer.json()["error"])


@pytest.mark.slow
async def test_no_request_for_rows_is_answered_by_a_fault(world: tuple[Engine, str]) -> None:
    chance = random.Random(20261123)
    statuses: Counter[int] = Counter()
    async with signed_in(world[1], "ed") as editor, signed_in(world[1], "rea") as reader:
        await editor.post(f"{DATA}/accounts", json=[{"name": f"a{n}"} for n in range(5)])
        await editor.post(f"{DATA}/contacts", json=[{"email": f"{n}@x", "account_id": 1 + n % 5} for n in range(20)])
        for _ in range(REQUESTS // 10):
            asked = [(chance.choice((editor, reader)), *hostile(chance)) for _ in range(10)]
            async with asyncio.timeout(60):
                answers = await asyncio.gather(*(ask(*one) for one in asked))
            for (_, path, headers), (status, error) in zip(asked, answers, strict=True):
                assert status < 500, (path, headers, status, error)
                assert status < 400 or error, (path, headers)
                statuses[status] += 1
    assert {200, 400, 403, 404} <= set(statuses), statuses
