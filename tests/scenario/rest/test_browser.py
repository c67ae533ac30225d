"""A real browser signs in through a real identity provider, and works with an app's rows."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright import async_api as playwright

from tests.scenario.people.sign_in_world import CONTACTS, World, sign_in_world
from tests.scenario.tools import lacking

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.slow
WRITE = """async ([url, email]) => {
    const body = JSON.stringify({email});
    const headers = {"Content-Type": "application/json"};
    try { return (await fetch(url, {method: "POST", credentials: "include", headers, body})).status; }
    catch (error) { return String(error); }
}"""


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> None:
    if CHROMIUM is None:
        lacking("no chromium here: apt-get install chromium")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with sign_in_world(tmp_path) as one:
        yield one


async def test_a_person_signs_in_reads_writes_and_signs_out(world: World) -> None:
    async with playwright.async_playwright() as running:
        browser = await running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await (await browser.new_context()).new_page()
        refused = await page.goto(f"{world.url}{CONTACTS}")
        assert refused is not None and refused.status == 401

        await page.goto(f"{world.url}/auth/login/{world.provider.id}?next=/apps/crm/")
        assert page.url.startswith(world.process.url)
        await page.fill("input[name=sub]", "ada")
        await page.click("button[type=submit]:not([name]), input[type=submit]")
        await page.wait_for_url(f"{world.url}/apps/crm/")
        assert (await page.title(), await page.inner_text("h1")) == ("CRM", "Contacts")

        await page.goto(f"{world.url}/api/v1/auth/me")
        assert '"username":"ada"' in await page.inner_text("body")
        assert await page.evaluate("document.cookie") == ""
        assert await page.evaluate(WRITE, [f"{world.url}{CONTACTS}", "ada@example.com"]) == 201
        assert await page.evaluate("async (url) => (await (await fetch(url)).json()).length", CONTACTS) == 1

        foreign = await page.context.new_page()
        await foreign.goto(f"{world.process.url}/.well-known/openid-configuration")
        assert await foreign.evaluate(WRITE, [f"{world.url}{CONTACTS}", "eve@example.com"]) != 201
        assert await page.evaluate("async (url) => (await (await fetch(url)).json()).length", CONTACTS) == 1

        assert await page.evaluate("async () => (await fetch('/auth/logout', {method: 'POST'})).status") == 204
        refused = await page.goto(f"{world.url}{CONTACTS}")
        assert refused is not None and refused.status == 401
        await browser.close()
