"""The site in a real browser: axe finds nothing on a page of each form, and the search asks nobody else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.async_playwright import Axe
from fastapi import FastAPI
from playwright.async_api import Page, expect

from tenantry.rest.docs.site import serve_site
from tests.docs import site
from tests.scenario.console.browser_place import browsing

pytestmark = pytest.mark.slow
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}}
PATIENCE_MS = 120_000
PAGES = ("", "data/", "guides/promote/", "kinds/region/", "tutorials/second-tenant/")
"""Pages with each form that the site has: tables, narrow and wide blocks, lists, output. The theme makes all pages alike."""
NARROW = ("guides/promote/", "kinds/region/")
"""Pages that are also looked at on a telephone: wide blocks and wide tables."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    site.build(folder)
    return folder


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    """The address of the site. Every page carries the policy of a platform."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    serve_site(app, folder)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/docs/"
        finally:
            server.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving


async def violations(page: Page) -> list[tuple[Any, ...]]:
    results = await Axe().run(page, options=RULES)
    return [(one["id"], node["html"][:160], node["any"][:1]) for one in results.response["violations"] for node in one["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_on_a_page_of_each_form(theme: Any, built: Path) -> None:
    found = list[tuple[Any, ...]]()
    async with served(built) as base, browsing() as page:
        page.set_default_timeout(PATIENCE_MS)
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for each in PAGES:
            await page.goto(f"{base}{each}")
            found += [(each, *one) for one in await violations(page)]
        await page.set_viewport_size({"width": 320, "height": 900})
        for each in NARROW:
            await page.goto(f"{base}{each}")
            found += [(each, "narrow", *one) for one in await violations(page)]
    assert found == []


async def test_the_search_finds_a_page_and_asks_nobody_else(built: Path) -> None:
    faults, asked = list[str](), list[str]()
    async with served(built) as base, browsing() as page:
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        await page.goto(base)
        await page.get_by_role("textbox", name="Search").click()
        await page.keyboard.type("undelete")
        first = page.locator(".md-search-result__item a").filter(has_text="Undelete an environment").first
        await expect(first).to_be_visible(timeout=PATIENCE_MS)
        await first.click()
        await expect(page.locator("h1")).to_contain_text("Undelete", timeout=PATIENCE_MS)
    assert [url for url in asked if not url.startswith((base, "data:", "blob:"))] == []
    assert faults == []
