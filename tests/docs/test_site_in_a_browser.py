"""The site in a real browser: axe finds nothing on any page, and the search asks nobody else."""

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
from playwright.async_api import expect

from tenantry.rest.docs.site import serve_site
from tests.docs import site
from tests.docs.guides import GUIDES
from tests.scenario.console.accessibility import RULES, both_themes, findings, violations
from tests.scenario.console.browser_place import browsing, place_in

pytestmark = pytest.mark.slow
PATIENCE_MS = 120_000
CONTENT = {**RULES, "rules": {each: {"enabled": False} for each in ("color-contrast", "target-size")}}
"""For what differs between the pages. The frame around it, all colours and sizes come from the theme."""
SHOW = """content => {
  const parsed = new DOMParser().parseFromString(content, "text/html");
  for (const hidden of parsed.querySelectorAll("a[id^=__codelineno]")) hidden.remove(); // by the theme's style sheet
  document.querySelector("main").replaceChildren(parsed.querySelector(".md-content"));
}"""
"""A script that puts the content of a page in the place of that of the one before. To load each page takes ten times as long."""
FORMS = ("", "data/", "guides/promote/", "kinds/region/", "tutorials/second-tenant/")
"""Pages with each form that the site has: tables, narrow and wide blocks, lists, output."""
WIDE, TELEPHONE = 1280, 320
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


def addresses(folder: Path) -> list[str]:
    """Each page of the site, and the one for what is no page."""
    pages = (page.relative_to(folder).as_posix().removesuffix("index.html") for page in folder.rglob("*.html"))
    return sorted(pages)


async def test_axe_finds_nothing_in_the_content_of_any_page(built: Path) -> None:
    found, pages = list[tuple[Any, ...]](), addresses(built)
    assert len(pages) > len(GUIDES)
    async with browsing() as page:
        await page.set_content("<!doctype html><html lang='en'><title>Content</title><main></main></html>")
        await page.evaluate(Axe().axe_script)
        for each in pages:
            content = (built / each / "index.html" if each.endswith("/") or not each else built / each).read_text()
            await page.evaluate(SHOW, content)
            found += [(each, *one) for one in await findings(page, CONTENT, "main")]
    assert found == []


async def test_axe_finds_nothing_on_a_page_of_each_form_in_both_themes(built: Path) -> None:
    found = list[tuple[Any, ...]]()
    async with served(built) as base, browsing() as page:
        page.set_default_timeout(PATIENCE_MS)
        for each in FORMS:
            await page.goto(f"{base}{each}")
            found += [(each, *one) for one in await violations(page, both_themes(WIDE))]
    assert found == []


async def test_axe_finds_nothing_on_a_telephone(built: Path) -> None:
    found = list[tuple[Any, ...]]()
    async with served(built) as base, browsing() as page:
        page.set_default_timeout(PATIENCE_MS)
        for each in NARROW:
            await page.goto(f"{base}{each}")
            found += [(each, *one) for one in await violations(page, both_themes(TELEPHONE))]
    assert found == []


async def test_axe_finds_nothing_on_the_page_of_rest(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        page = place.page
        await page.goto(f"{place.base}/docs/api/")
        await page.locator("#api .opblock").first.wait_for()
        found = await violations(page, both_themes(WIDE))
        assert (found, place.faults) == ([], [])


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
