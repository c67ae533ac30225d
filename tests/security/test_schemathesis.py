"""Requests that schemathesis makes from the OpenAPI document, valid and not, alone and in sequences: no 5xx, and no secret.

The requests are counted where they arrive. Every answer is searched for the secrets that the platform holds (S10).
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.scenario.rest_world import World, world_in
from tests.scenario.serving import serving
from tests.support.generated_requests import shapes

REQUESTS = at_full(20_000, otherwise=80)
EXAMPLES = at_full(100, otherwise=1)
PHASES = "examples,coverage,fuzzing,stateful" if REQUESTS == 20_000 else "fuzzing,stateful"
SEED = int(os.environ.get("TENANTRY_SEED", "20261123"))
RUN_S = 900
ROOT = Path(__file__).parents[2]
LARGEST = 1 << 20
"""Bytes of an answer that are searched."""
CANARIES = tuple(f"canary-{number:02}-q7x" for number in range(10))


@dataclass
class Watching:
    """Counts and searches the answers of an application. leaks: where a secret stood; failed: requests answered by a 5xx."""

    app: ASGIApp
    statuses: Counter[int] = field(default_factory=Counter)
    leaks: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = bytearray()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer.extend(repr(message["headers"]).encode())
            elif len(answer) < LARGEST:
                answer.extend(message.get("body", b""))
            await send(message)

        await self.app(scope, receive, sent)
        self._note(f"{scope['method']} {scope['path']}", status, bytes(answer))

    def _note(self, request: str, status: int, answer: bytes) -> None:
        self.statuses[status] += 1
        if status >= 500:
            self.failed.setdefault(request, f"{status} {answer[-500:].decode(errors='replace')}")
        self.leaks |= {f"{canary} in {request}" for canary in CANARIES if any(shape in answer for shape in shapes(canary))}


async def populate(world: World) -> Mapping[str, str]:
    """A tenant whose people, engine users and providers have canaries as passwords; the bearer of each role."""
    canary = itertools.cycle(CANARIES)
    await world.tenant("acme")
    made = await world.environment("acme", "dev")
    base = f"/engines/{made['environment']['id']}/api/v1/admin"
    for number in range(3):
        body = {"username": f"ann{number}", "password": next(canary)}
        assert (await world("acme-admin", "POST", f"{base}/identities", json=body)).is_success
    for number in range(3):
        body = {
            "name": f"corp{number}",
            "issuer_url": f"https://id{number}.example",
            "client_id": "tenantry",
            "client_secret": next(canary),
        }
        assert (await world("acme-admin", "POST", f"{base}/idps/external", json=body)).is_success
    tenants = (await world("root", "GET", "/tenants")).json()
    for number in range(4):
        body = {"username": f"person{number}", "password": next(canary), "tenantId": tenants[0]["id"], "type": "VIEWER"}
        assert (await world("root", "POST", "/users", json=body)).is_success
    return {role: await world.token(role) for role in ("root", "acme-admin")}


@asynccontextmanager
async def fuzzed(folder: Path) -> AsyncIterator[tuple[Watching, str, Mapping[str, str]]]:
    """A served platform, its URL and the bearers."""
    async with world_in(folder) as world:
        bearers = await populate(world)
        watching = Watching(world.platform.http)
        async with serving(watching) as url:
            yield watching, url, bearers


async def schemathesis(url: str, bearer: str, seed: int, folder: Path) -> None:
    """One run of the command, whose own verdict does not count: it stops looking at what it has seen."""
    options = {
        "--url": url,
        "--header": f"Authorization: Bearer {bearer}",
        "--checks": "not_a_server_error",
        "--exclude-path": "/api/v1/auth/logout",  # it ends the session of all requests after it
        "--phases": PHASES,
        "--mode": "all",
        "--max-examples": str(EXAMPLES),
        "--seed": str(seed),
        "--request-timeout": "60",
        "--suppress-health-check": "all",
        "--generation-database": "none",
        "--warnings": "off",
    }
    arguments = [*itertools.chain(*options.items()), "--continue-on-failure", "--no-shrink", "--no-color"]
    command = (str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/openapi.json", *arguments)
    environ = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.security.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
    with (folder / "schemathesis.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=log, stderr=log, env=environ)
        try:
            await asyncio.wait_for(process.wait(), RUN_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("role", ["root", "acme-admin"])
async def test_no_request_of_schemathesis_is_answered_by_a_5xx_or_with_a_secret(role: str, tmp_path: Path, tried: Tried) -> None:
    (tmp_path / "state").mkdir()
    for number in itertools.count():
        async with fuzzed(tmp_path / "state" / f"{number}") as (watching, url, bearers):
            await schemathesis(url, bearers[role], SEED + number, tmp_path)
        found = sum(watching.statuses.values())
        assert found > 40, (tmp_path / "schemathesis.log").read_text()[-3000:]
        tried(found)
        print(f"seed {SEED + number}, as {role}: {dict(sorted(watching.statuses.items()))}")
        assert watching.failed == {}, f"seed {SEED + number}, as {role}"
        assert watching.leaks == set(), f"seed {SEED + number}, as {role}"
        if tried.count >= REQUESTS // 2:
            return


async def test_a_5xx_and_a_secret_in_an_answer_are_seen(tmp_path: Path) -> None:
    async def leaking(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": base64.b64encode(CANARIES[0].encode())})

    async def sent(_: Any) -> None:
        return None

    watching = Watching(leaking)
    await watching({"type": "http", "method": "GET", "path": "/x"}, sent, sent)  # type: ignore[arg-type]
    assert (list(watching.failed), watching.leaks) == (["GET /x"], {f"{CANARIES[0]} in GET /x"})
