"""Halves of surrogate pairs, which are no characters, and NUL: a body or an address with one is refused or read, never a 5xx."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.scenario.data_world import DATA, signed_in
from tests.scenario.rest_world import world_in
from tests.security.places import PLACES, engine_at
from tests.support.endpoints import Endpoint, endpoints, ids_of

ADDRESS = "%ED%A0%80"
"""Half of a pair in UTF-8, as an address spells it."""
BYTES = b"\xed\xa0\x80"
NUL = (b'{"name": "a\\u0000b"}', b'{"a\\u0000b": 1}')
JSON = (b'{"name": "\\ud800"}', b'{"\\udfff": 1}', b'{"name": "' + BYTES + b'"}', b'[{"name": "a\\ud800b"}]')
MULTIPART = b'--B\r\nContent-Disposition: form-data; name="file"; filename="' + BYTES + b'"\r\n\r\n' + BYTES + b"\r\n--B--\r\n"
FORM = "application/x-www-form-urlencoded"


class Sent(NamedTuple):
    """A request that holds half of a pair."""

    method: str
    path: str
    content: bytes | None = None
    kind: str = ""


def requests_of(endpoint: Endpoint, ids: dict[str, str]) -> list[Sent]:
    """Half of a pair in the path, in each query parameter, and in a body of each kind."""
    whole = endpoint.to(ids) if "{" in endpoint.path else endpoint.path
    found = [Sent(endpoint.method, re.sub(r"\{\w+[^}]*\}$", ADDRESS, endpoint.path).format_map(_Ids(ids)))]
    found += [Sent(endpoint.method, f"{whole}?{name.rstrip('!')}={ADDRESS}") for name in sorted(endpoint.takes)]
    if endpoint.method in ("POST", "PUT", "PATCH"):
        found += [Sent(endpoint.method, whole, body, "application/json") for body in (*JSON, *NUL)]
        found.append(Sent(endpoint.method, whole, f"username={ADDRESS}&password={ADDRESS}&name={ADDRESS}".encode(), FORM))
        found.append(Sent(endpoint.method, whole, MULTIPART, "multipart/form-data; boundary=B"))
    return found


class _Ids(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return self.get("environments", "x") if key == "environmentId" else ADDRESS


async def faults(http: httpx.AsyncClient, requests: list[Sent], headers: dict[str, str]) -> list[str]:
    """The requests that were answered by a fault, or whose half of a pair was taken in a JSON body."""
    found = []
    for each in requests:
        kind = {"Content-Type": each.kind} if each.kind else {}
        answer = await http.request(each.method, each.path, content=each.content, headers={**headers, **kind})
        taken = each.kind == "application/json" and answer.is_success
        if answer.status_code >= 500 or taken:
            found.append(f"{answer.status_code} {each.method} {each.path} {each.content!r}: {answer.text[:200]}")
    return found


@pytest.mark.slow
async def test_the_facade_and_its_engines_answer_no_half_of_a_pair_by_a_fault(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        ids = await ids_of(world, "acme")
        token = {user: await world.token(user) for user in ("root", "acme-admin")}
        schema = (await world("", "GET", "/openapi.json")).json()
        kept = [each for each in endpoints(schema) if each.method != "DELETE" and not each.path.endswith("/auth/logout")]
        for who in ("root", "acme-admin"):
            for each in kept:
                assert await faults(world.http, requests_of(each, ids), {"Authorization": f"Bearer {token[who]}"}) == []
        basic = base64.b64encode(b"root:" + BYTES).decode()
        for header in (f"Basic {basic}", f"Bearer {base64.b64encode(BYTES).decode()}"):
            assert await faults(world.http, [Sent("GET", "/api/v1/auth/me")], {"Authorization": header}) == []


@pytest.fixture(params=PLACES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with engine_at(request.param, tmp_path, request) as (_, served), signed_in(served, "ed") as client:
        yield client


@pytest.mark.slow
async def test_rows_take_no_half_of_a_pair_and_filters_find_none(engine: httpx.AsyncClient) -> None:
    accounts = f"{DATA}/accounts"
    filters = [f"name={operator}.{ADDRESS}" for operator in ("eq", "neq", "gt", "like", "ilike", "in", "is", "")]
    filters += [f"{ADDRESS}=eq.1", f"or=(name.eq.{ADDRESS})", f"select={ADDRESS}", f"order={ADDRESS}", f"continue={ADDRESS}"]
    requests = [Sent("GET", f"{accounts}?{each}") for each in filters]
    requests += [Sent("GET", f"{DATA}/{ADDRESS}"), Sent("GET", f"{accounts}/{ADDRESS}"), Sent("DELETE", f"{accounts}/{ADDRESS}")]
    requests += [Sent(method, f"{accounts}{at}", body, "application/json") for method, at in WRITES for body in JSON]
    requests += [Sent("POST", f"{accounts}?on_conflict={ADDRESS}", b'{"name": "n"}', "application/x-ndjson")]
    before: Any = (await engine.get(accounts)).json()
    assert await faults(engine, requests, {}) == []
    assert (await engine.get(accounts)).json() == before


WRITES = (("POST", ""), ("PATCH", "/1"), ("PATCH", f"/{ADDRESS}"))
