"""The console of a running platform, and browsers without a screen: each keeps its own cookies."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx

from tenantry.api.app import create_app
from tenantry.api.facade_context import FacadeContext
from tenantry.console.app import add_console
from tenantry.rest.apps.plain import PlainApp
from tests.scenario.rest_world import PASSWORD, World, world_in

BASE = "http://localhost:8080"
FORM = {"Origin": BASE, "Sec-Fetch-Site": "same-origin"}


@dataclass
class ConsoleWorld:
    """The platform behind its console."""

    rest: World
    app: PlainApp
    context: FacadeContext
    stack: AsyncExitStack
    browsers: dict[str, httpx.AsyncClient] = field(default_factory=dict)

    async def browser(self, client: tuple[str, int] = ("127.0.0.1", 50_000), base: str = BASE) -> httpx.AsyncClient:
        """A browser that nobody has signed in with."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=True, client=client)
        return await self.stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=base, timeout=60))

    async def __call__(self, user: str) -> httpx.AsyncClient:
        """The browser of that user, signed in."""
        if user not in self.browsers:
            browser = self.browsers[user] = await self.browser()
            answer = await sign_in(browser, user)
            assert answer.status_code == 303, answer.text
        return self.browsers[user]


async def sign_in(browser: httpx.AsyncClient, user: str, password: str = PASSWORD, **options: Any) -> httpx.Response:
    """Send the form of the sign-in page."""
    form = {"username": user, "password": password}
    return await browser.post("/console/sign-in", data=form, headers=FORM | options.pop("headers", {}), **options)


@asynccontextmanager
async def console_world(state: Path, **facade: Any) -> AsyncIterator[ConsoleWorld]:
    """A running platform with a SUPERUSER `root` and a region `here`. facade: parts of the facade, if not the usual ones."""
    async with world_in(state, **facade) as rest, AsyncExitStack() as stack:
        contexts: list[FacadeContext] = []

        def add(app: PlainApp, context: FacadeContext) -> None:
            contexts.append(context)
            add_console(app, context, rest.platform.codes)

        yield ConsoleWorld(rest, create_app(replace(rest.platform.facade, **facade), add), contexts[0], stack)


@asynccontextmanager
async def world_of_acme(folder: Path) -> AsyncIterator[ConsoleWorld]:
    """The same with a tenant acme and its environment dev, at rest."""
    async with console_world(folder) as world:
        await world.rest.tenant("acme")
        await world.rest.environment("acme", "dev")
        await world.rest.platform.converged()
        yield world


class Parsed(HTMLParser):
    """A page as a browser parses it: its tags with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def links(self) -> list[str]:
        """The addresses of its links."""
        return [str(attributes["href"]) for tag, attributes in self.tags if tag == "a" and attributes.get("href")]

    @property
    def assets(self) -> list[str]:
        """The addresses of its styles, scripts and pictures, which a browser fetches with the page."""
        loading = {"link": "href", "script": "src", "img": "src"}
        found = [str(held[loading[tag]]) for tag, held in self.tags if tag in loading and held.get(loading[tag])]
        return [each for each in found if not each.startswith("data:")]


def csrf_of(page: str) -> str:
    """The token that the forms of a page carry."""
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', page)
    assert found is not None, page
    return found[1]
