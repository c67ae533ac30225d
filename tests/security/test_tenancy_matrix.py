"""Every endpoint of the OpenAPI, by each role, on an own, a foreign and an absent object: nobody learns of another tenant.

The foreign tenant's names hold a canary; it may stand in no answer to those who are not of that tenant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api import tenancy
from tenantry.api.reading.body_cache import Scope
from tests.campaigns.tried import Tried
from tests.scenario.rest_world import World, world_in
from tests.support.endpoints import ABSENT, OPEN, SERVED, Endpoint, endpoints, ids_of, in_order, without

CANARY = "canary7q"
FORGED = {"Authorization": "Bearer e30.e30.e30"}
ROLES = ("nobody", "forged", "acme-viewer", "acme-admin", "root")
TARGETS = ("own", "foreign", "absent")


@dataclass(frozen=True)
class Answer:
    """The answer to a request, without the ids that it named."""

    status: int
    body: str
    headers: str


async def populate(world: World) -> dict[str, dict[str, str]]:
    """Two tenants; the foreign one has people, environments and engine users whose names hold the canary."""
    own = await ids_of(world, "acme")
    foreign = await ids_of(world, f"glob-{CANARY}")
    admin = f"glob-{CANARY}-admin"
    base = f"/engines/{foreign['environments']}/api/v1/admin"
    made = await world(admin, "POST", f"{base}/identities", json={"username": f"{CANARY}-ann", "password": "a long password"})
    assert made.status_code in (200, 201), made.text
    return {"own": own, "foreign": foreign, "absent": dict.fromkeys(own, ABSENT)}


def bodies(endpoint: Endpoint, ids: Mapping[str, str]) -> Iterator[Any]:
    """No body, and one that names the target."""
    yield None
    if endpoint.method in ("POST", "PUT", "PATCH"):
        named = {"name": "Named", "slug": "named", "region": "here", "tenantId": ids["tenants"], "tenant_id": ids["tenants"]}
        yield {**named, "username": "named", "password": "a long password", "type": "ADMIN", "environmentId": ids["environments"]}


async def ask(world: World, role: str, endpoint: Endpoint, ids: Mapping[str, str], body: Any, dry: bool) -> Answer:
    """The answer, also to a query that names the target's tenant, or asks what the change would come to."""
    headers = {} if role == "nobody" else FORGED if role == "forged" else {"Authorization": f"Bearer {await world.token(role)}"}
    query = {"tenantId": ids["tenants"]} if endpoint.method == "GET" else {"dryRun": "true"} if dry else {}
    taken = {name: value for name, value in query.items() if name in endpoint.takes}
    answer = await world.http.request(endpoint.method, endpoint.to(dict(ids)), headers=headers, params=taken, json=body)
    return _told(answer, ids)


def _told(answer: httpx.Response, ids: Mapping[str, str]) -> Answer:
    kept = {name: value for name, value in answer.headers.items() if name not in ("content-length", "date", "etag")}
    return Answer(answer.status_code, without(answer.text, dict(ids)), without(json.dumps(kept, sort_keys=True), dict(ids)))


async def leaks(world: World, tried: Tried) -> dict[Any, Any]:
    """The faults, by endpoint, role and target."""
    targets = await populate(world)
    found = in_order(endpoints((await world("", "GET", "/openapi.json")).json()))
    wrong: dict[Any, Any] = {}
    for role in ROLES:
        for endpoint in found:
            for variant in range(3):
                answers: dict[str, Answer] = {}
                for target in TARGETS:
                    # The last variant repeats the fullest body as a dry run.
                    given, dry = [*bodies(endpoint, targets[target])], variant == 2
                    if (dry and endpoint.method != "GET") or (variant < len(given) and not _destroys(role, endpoint, target)):
                        body = given[-1] if dry else given[variant]
                        answers[target] = await ask(world, role, endpoint, targets[target], body, dry)
                        tried()
                for problem in problems(role, endpoint, answers):
                    wrong[endpoint, role, variant, problem] = answers
    return wrong


def _destroys(role: str, endpoint: Endpoint, target: str) -> bool:
    """Would a SUPERUSER take away what the rest of the table needs?"""
    return role == "root" and endpoint.method == "DELETE" and target != "absent"


def problems(role: str, endpoint: Endpoint, answers: Mapping[str, Answer]) -> Iterator[str]:
    """The faults in the answers to one request, by target."""
    for target, answer in answers.items():
        if answer.status not in SERVED:
            yield f"{target}: {answer.status}"
        if role != "root" and CANARY in answer.body + answer.headers:
            yield f"{target}: tells of another tenant"
        if role in ("nobody", "forged") and answer.status != 401 and (endpoint.method, endpoint.path) not in OPEN:
            yield f"{target}: {answer.status} without a token"
        if role == "acme-viewer" and endpoint.method != "GET" and answer.status < 400 and "/auth/" not in endpoint.path:
            yield f"{target}: a viewer writes"
    foreign, absent = answers.get("foreign"), answers.get("absent")
    if role not in ("root",) and foreign != absent:
        yield "foreign and absent differ"


@pytest.mark.slow
async def test_no_endpoint_tells_any_role_of_another_tenant(tmp_path: Path, tried: Tried) -> None:
    async with world_in(tmp_path) as world:
        assert await leaks(world, tried) == {}
    assert tried.count >= 1000


@pytest.mark.slow
async def test_s1_without_a_tenants_scope_others_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Tried) -> None:
    monkeypatch.setattr(tenancy, "environments", lambda *_: Scope())
    async with world_in(tmp_path) as world:
        assert "tells of another tenant" in str(await leaks(world, tried))
