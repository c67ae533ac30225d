"""The facade of `tenantry up` before it is made: probes are answered as it answers them, and all else waits for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.api.app import create_app
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.issuing import issuer
from tenantry.kinds.admission import Admission
from tests.scenario.rest_world import BASE, declare, declare_user

OTHERS = ("/api/v1/environments", "/", "/console/", "/healthz/", "/e/nobody/nothing/healthz")


def _asking(app: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, timeout=60)  # type: ignore[arg-type]


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(("method", "path"), [("GET", "/healthz"), ("GET", "/readyz"), ("HEAD", "/healthz"), ("POST", "/readyz")])
async def test_probes_are_answered_as_the_facade_answers_them(tmp_path: Path, method: str, path: str, started: bool) -> None:
    platform = await Platform.open(tmp_path, BASE, MemoryStore(Admission()))
    platform._started = started
    async with _asking(platform.http) as before, _asking(create_app(platform.facade)) as after:
        now = await before.request(method, path)
        assert (now.status_code, now.content, now.headers) == await _told(after, method, path)
        await platform.later_facade.made()
        later = await before.request(method, path)
        assert (later.status_code, later.content, later.headers) == await _told(after, method, path)
    numbers = generate_latest(platform.numbers()).decode()
    assert f'route="{path}"' in numbers
    await platform.close()


async def _told(client: httpx.AsyncClient, method: str, path: str) -> tuple[int, bytes, httpx.Headers]:
    answer = await client.request(method, path)
    return answer.status_code, answer.content, answer.headers


async def test_requests_that_come_together_wait_for_one_facade(tmp_path: Path) -> None:
    platform = await Platform.open(tmp_path, BASE, MemoryStore(Admission()))
    made = 0
    make = platform._make_facade

    def counted() -> object:
        nonlocal made
        made += 1
        return make()

    platform.later_facade._make = counted  # type: ignore[assignment]
    async with _asking(platform.http) as client:
        answers = await asyncio.gather(*(client.get(path, follow_redirects=False) for path in OTHERS))
    assert [each.status_code for each in answers] == [401, 200, 403, 404, 404]
    assert made == 1
    await platform.close()


async def test_the_first_request_after_a_restart_finds_what_is_stored(tmp_path: Path) -> None:
    """Also before any pass has run: a token of before is that of a user, and lists are whole."""
    before = await Platform.open(tmp_path, BASE)
    await before.start()
    await declare(before, "Tenant", "acme", {})
    await declare_user(before, "root", "SUPERUSER")
    await before.converged()
    token = await issuer(before)("root", timedelta(hours=1))
    await before.close()

    after = await Platform.open(tmp_path, BASE)
    async with _asking(after.http) as client:
        answer = await client.get("/api/v1/tenants", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, [each["slug"] for each in answer.json()]) == (200, ["acme"])
    await after.start()
    await after.converged()
    await after.close()
