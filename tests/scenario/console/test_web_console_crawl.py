"""C9: a crawler that follows every link of the console, and opens every form and confirmation, writes nothing."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.scenario.console.console_world import BASE, ConsoleWorld, Parsed, console_world
from tests.scenario.rest_world import declare

pytestmark = pytest.mark.slow
MOST = 2_000
"""More addresses than the console of so small a platform has: a link that makes new ones without end would pass it."""


async def test_following_every_link_writes_nothing(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        await _fill(world)
        before = await _version(world)
        pages, assets = await _crawl(await world("root"), "/console/")
        assert await _version(world) == before
        assert {each: (await (await world("root")).get(each)).status_code for each in assets} == dict.fromkeys(assets, 200)
    assert {each.rpartition(".")[2] for each in assets} == {"css", "js", "svg"}
    kinds = {urlsplit(each).path.split("/")[2] for each in pages}
    assert {"tenants", "environments", "apps", "packages", "regions", "users", "identities", "sources", "operations"} <= kinds
    verbs = {urlsplit(each).path.rpartition("/")[2] for each in pages}
    assert {"new", "edit", "delete", "suspend", "reconcile", "backup", "publish"} <= verbs, "confirmations and forms are pages"


async def _fill(world: ConsoleWorld) -> None:
    """One object of each kind that has pages."""
    platform = world.rest.platform
    await world.rest.tenant("acme")
    await world.rest.environment("acme", "dev")
    for kind, name, spec in (
        ("App", "dev.crm", {"environment": "dev", "app": "crm", "version": "1.0.0"}),
        ("Identity", "ann", {"environment": "dev", "username": "ann", "passwordSecretRef": {"name": "none"}}),
        ("IdentityProvider", "corp", {"environment": "dev", "issuerUrl": "https://issuer.example", "clientId": "dev"}),
        ("Package", "crm", {"app": "crm", "version": "1.0.0"}),
        ("Source", "main", {"url": "https://git.example.com/none.git", "suspend": True}),
    ):
        await declare(platform, kind, name, spec, "tenant-acme")
    await platform.runtime.idle(1)


async def _version(world: ConsoleWorld) -> str:
    """The version of the store, which every write raises."""
    _, version = await world.rest.platform.state.store.list("Region")
    return version


async def _crawl(browser: httpx.AsyncClient, start: str) -> tuple[set[str], set[str]]:
    """Every address of the console that links lead to, each answered with a page; and all that these pages load."""
    seen, assets, left = {start}, set[str](), [start]
    while left:
        address = left.pop()
        answer = await browser.get(address, follow_redirects=True)
        assert answer.status_code in (200, 404), (address, answer.status_code)
        if "text/html" not in answer.headers["content-type"]:
            continue
        parsed = Parsed(answer.text)
        assets |= {urljoin(str(answer.url), each) for each in parsed.assets}
        for link in parsed.links:
            found = urlsplit(urljoin(f"{BASE}{address}", link))
            target = f"{found.path}?{found.query}" if found.query else found.path
            if found.netloc == urlsplit(BASE).netloc and found.path.startswith("/console/") and target not in seen:
                seen.add(target)
                left.append(target)
        assert len(seen) < MOST, sorted(seen)[-10:]
    return seen, assets
