"""A platform of `tenantry up`, and a page of a real browser in its console."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import yaml
from playwright import async_api as playwright

from tests.scenario.cli import Running, serving
from tests.scenario.hosts import object_
from tests.scenario.tools import lacking

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

PATIENCE_MS = 120_000
"""Milliseconds that a page or a part of it may take on a busy machine, where a test says nothing else."""

REPORTING = """document.addEventListener("securitypolicyviolation", (event) =>
    console.info(`Content Security Policy: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));"""
"""A script of the browser that says what the policy of a page forbade, in words that no version of a browser changes."""


@dataclass
class Place:
    """A platform with its source, and a page of a browser. faults: errors of scripts and of the security policy."""

    source: Path
    running: Running
    page: playwright.Page
    requests: list[str]
    faults: list[str]

    @property
    def base(self) -> str:
        return self.running.url.replace("127.0.0.1", "localhost")

    async def enter(self) -> None:
        """Open the address that `up` prints."""
        assert self.running.process.stdout is not None
        line = next(line for line in self.running.process.stdout if "/console/enter" in line)
        await self.page.goto(re.findall(r"http://localhost\S+", line)[0])

    def declare(self, title: str) -> None:
        """Write the source anew."""
        declare_in(self.source, title)


def declare_in(folder: Path, title: str) -> Path:
    """Write a source with a Region, a Tenant and an Environment. Returns the folder."""
    declared = [
        object_("Region", "", "here", displayName=title),
        object_("Tenant", "", "acme", displayName="Acme"),
        object_("Environment", "tenant-acme", "dev", region="here", displayName=title),
    ]
    folder.mkdir(exist_ok=True)
    (folder / "all.yaml").write_text(yaml.safe_dump_all(declared))
    return folder


@asynccontextmanager
async def place_in(
    folder: Path,
    content: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
    location: str = "",
    **options: object,
) -> AsyncIterator[Place]:
    """A platform of a folder with that content, and a browser.

    variables: of the platform; location: of its source, default: the folder; options: of the browser.
    """
    source = folder / "source"
    shutil.copytree(content, source) if content is not None else source.mkdir()
    with serving("up", location or source, "--listen", "127.0.0.1:0", cwd=folder, **variables) as running:
        async with browsing(**options) as page:
            place = Place(source, running, page, [], [])
            page.on("request", lambda request: place.requests.append(request.url))
            page.on("pageerror", lambda error: place.faults.append(str(error)))
            page.on("console", lambda message: place.faults.append(message.text) if message.type == "error" else None)
            yield place


@asynccontextmanager
async def browsing(**options: object) -> AsyncIterator[playwright.Page]:
    """A page of a browser. options: of the browser."""
    if CHROMIUM is None:
        lacking("no chromium here: apt-get install chromium")
    async with playwright.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            context = await browser.new_context(**options)  # type: ignore[arg-type]
            context.set_default_timeout(PATIENCE_MS)
            broken = await watched(context)
            yield await context.new_page()
            assert broken == [], "C10: a page of the console broke its policy, or asked another origin"
        finally:
            await browser.close()


def of_console(address: str) -> bool:
    return urlsplit(address).path.startswith("/console/")


async def watched(context: playwright.BrowserContext) -> list[str]:
    """Return a list that gets each report of the policy, and each request of a page of the console to another origin.

    It covers every tab and pop-up of the browser.
    """
    broken: list[str] = []

    def asked(request: playwright.Request) -> None:
        if request.is_navigation_request():  # it may be older than its frame
            return
        worker = request.service_worker
        asking = worker.url if worker is not None else request.frame.url
        if of_console(asking) and urlsplit(request.url).netloc != urlsplit(asking).netloc:
            broken.append(f"{asking} asked {request.url}")

    def reported(message: playwright.ConsoleMessage) -> None:
        if "Content Security Policy" in message.text and message.page is not None and of_console(message.page.url):
            broken.append(f"{message.page.url}: {message.text}")

    context.on("request", asked)
    context.on("console", reported)
    await context.add_init_script(REPORTING)
    return broken


async def sign_in(page: playwright.Page, address: str, password: str, username: str = "admin") -> None:
    """Open a page of the console as somebody who has no session yet."""
    await page.goto(address)
    await page.fill("#username", username)
    await page.fill("#password", password)
    await page.click("button.main")


async def by_issuer(page: playwright.Page, address: str, sub: str) -> None:
    """The same for somebody whom the provider of the tests knows."""
    await page.goto(address)
    await page.click("a.main")
    await page.click(f"button[value='{sub}']")
