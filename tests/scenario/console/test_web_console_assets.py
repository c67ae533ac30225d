"""Whatever a page loads is there for whoever sees the page: at each address of the platform, with a session and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.scenario.console.console_world import BASE, ConsoleWorld, Parsed, sign_in, world_of_acme

ADDRESSES = ("http://localhost:8080", "http://127.0.0.1:8080", "http://tenantry.example", "https://tenantry.example")
PATHS = (
    "/console/", "/console/sign-in", "/console/enter?code=used", "/console/callback", "/console/static/none/console.css",
    "/console/environments", "/console/environments/none", "/console/environments/new", "/console/plan", "/console/removed",
    "/docs/", "/docs/api/",
)  # fmt: skip
VIEWERS = ("", "root", "acme-viewer")
pytestmark = pytest.mark.slow


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with world_of_acme(tmp_path) as one:
        yield one


@pytest.mark.parametrize("base", ADDRESSES)
async def test_all_that_a_page_loads_is_there_for_its_viewer(world: ConsoleWorld, base: str) -> None:
    away, seen = list[tuple[str, ...]](), set[str]()
    for viewer in VIEWERS:
        browser = await world.browser(base=base)
        if viewer and base in (BASE, "https://tenantry.example"):
            headers = {"Origin": base, "Sec-Fetch-Site": "same-origin"}
            assert (await sign_in(browser, viewer, headers=headers)).status_code == 303
        for path in PATHS:
            page = await browser.get(path, follow_redirects=True)
            for each in Parsed(page.text).assets:
                answer = await browser.get(urljoin(str(page.url), each), follow_redirects=True)
                kind = answer.headers["content-type"].partition(";")[0]
                seen.add(kind)
                if answer.status_code != 200 or kind not in ("text/css", "text/javascript", "image/svg+xml"):
                    away.append((viewer, path, each, str(answer.status_code), kind))
    assert away == []
    assert seen == {"text/css", "text/javascript", "image/svg+xml"}
