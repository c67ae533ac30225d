"""Live updates of the console: fed by the cache, rendered once for equal rights, and over with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import cast

import httpx
import pytest
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request

from tenantry.console.http.sessions import Sessions
from tenantry.console.reading.freshness import Freshness
from tenantry.console.reading.rights import Rights
from tenantry.console.routes.live import STREAMS, Feeds, LiveUpdates, PageFeed, concerns
from tenantry.console.routes.screens import Screen, Screens
from tenantry.model.verdicts import Halt, Transient
from tenantry.runtime.cache import Seen
from tests.scenario.console.console_world import FORM, ConsoleWorld, console_world, csrf_of
from tests.scenario.rest_world import declare
from tests.support.patience import DEADLINE_S

ROOT = Rights(True)


CLOSE = b"event: close\r\ndata: %s\r\n\r\n"


class CountedScreens(Screens):
    """Counts how often a page is rendered."""

    renderings = 0

    async def show(self, rights: Rights, path: str, query: object) -> Screen:
        self.renderings += 1
        return await super().show(rights, path, {})


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with console_world(tmp_path) as one:
        yield one


async def shown(feed: PageFeed, wanted: str) -> str:
    """The content, once it holds that text."""
    seen = ""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            assert await feed.newer(seen, DEADLINE_S)
            if wanted in feed.event.decode():
                return feed.event.decode()
            seen = feed.digest


async def test_a_change_is_shown_and_rendered_once_for_all_who_may_see_it(world: ConsoleWorld) -> None:
    screens = CountedScreens(world.context)
    feeds = Feeds(world.context.cache, screens)
    readers = [feeds.enter(ROOT, "/regions") for _ in range(50)]
    assert (feeds.running, len({id(feed) for feed in readers})) == (1, 1)
    await shown(readers[0], "Here")
    before = screens.renderings
    await declare(world.rest.platform, "Region", "there", {"displayName": "Over there"})
    await asyncio.gather(*(shown(feed, "Over there") for feed in readers))
    assert screens.renderings - before <= 3  # the object, its first status; never one for each reader
    for _ in readers:
        feeds.leave(ROOT, "/regions")
    assert feeds.running == 0


async def test_a_page_that_nobody_reads_costs_nothing(world: ConsoleWorld) -> None:
    screens = CountedScreens(world.context)
    feeds = Feeds(world.context.cache, screens)
    feed = feeds.enter(ROOT, "/regions")
    await shown(feed, "Here")
    feeds.leave(ROOT, "/regions")
    before = screens.renderings
    await declare(world.rest.platform, "Region", "there", {})
    await world.rest.platform.runtime.idle(1)
    assert screens.renderings == before


async def test_a_tenant_s_page_is_not_rendered_for_changes_of_another(world: ConsoleWorld) -> None:
    for slug in ("acme", "globex"):
        await world.rest.tenant(slug)
    tenant = world.context.owners.named("acme")
    assert tenant is not None and tenant.status.namespace is not None
    rights = Rights(False, "acme", tenant.metadata.uid, tenant.status.namespace.name)
    await world.rest.platform.converged()
    changes: list[Seen] = []
    world.context.cache.listen(changes.append)
    await world.rest.environment("globex", "theirs")
    assert {"Environment", "Operation"} <= {one.ref.kind for one in changes}
    assert {one.ref.kind for one in changes if concerns(rights, one)} <= {"Region"}
    feeds = Feeds(world.context.cache, Screens(world.context))
    feed = feeds.enter(rights, "/environments")
    await world.rest.environment("acme", "ours")
    content = await shown(feed, "OURS")
    assert "THEIRS" not in content
    feeds.leave(rights, "/environments")


async def test_a_page_whose_object_goes_says_so(world: ConsoleWorld) -> None:
    feeds = Feeds(world.context.cache, Screens(world.context))
    region = next(world.context.cache.resources("Region"))
    of = f"/regions/{region.metadata.uid}"
    feed = feeds.enter(ROOT, of)
    await shown(feed, "Here")
    await world.rest.platform.state.writing.delete(region.held._replace(version=""))
    assert "no Region with id" in await shown(feed, "Not found")
    feeds.leave(ROOT, of)


async def events(live: LiveUpdates, browser: httpx.AsyncClient, of: str = "/") -> AsyncGenerator[bytes, None]:
    """The events of a stream that a signed-in browser opens."""
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = [(b"host", b"localhost:8080"), (b"cookie", cookies.encode())]
    scope = {"type": "http", "method": "GET", "path": "/console/live", "headers": headers, "scheme": "http",
             "server": ("localhost", 8080), "query_string": f"of={of}".encode()}  # fmt: skip
    answer = await live.stream(Request(scope))
    assert isinstance(answer, EventSourceResponse)
    async with aclosing(cast(AsyncGenerator[bytes, None], answer.body_iterator)) as sent:
        async for event in sent:
            yield event


async def test_a_session_has_four_streams_and_the_next_page_asks_from_time_to_time(world: ConsoleWorld) -> None:
    browser = await world("root")
    live = LiveUpdates(world.context, Sessions(world.context), Screens(world.context))
    streams = [events(live, browser, f"/?tab={number}") for number in range(STREAMS + 1)]
    first = [await anext(stream) for stream in streams]
    assert [event.startswith(b"id: ") for event in first] == [True] * STREAMS + [False]
    assert first[-1] == CLOSE % b"poll"
    await streams[0].aclose()
    assert not (await anext(events(live, browser, "/?tab=again"))).startswith(b"event:")
    once = await browser.get("/console/live", params={"of": "/regions", "once": "1"})
    digest = once.text.partition('data-seen="')[2].partition('"')[0]
    assert (once.status_code, "Here" in once.text) == (200, True)
    again = await browser.get("/console/live", params={"of": "/regions", "once": "1", "seen": digest})
    assert (again.status_code, again.content) == (204, b"")


async def test_a_stream_ends_with_its_session(world: ConsoleWorld) -> None:
    browser = await world("root")
    live = LiveUpdates(world.context, Sessions(world.context), Screens(world.context))
    stream = events(live, browser)
    await anext(stream)
    cookies = httpx.Cookies(browser.cookies)
    page = await browser.get("/console/")
    await browser.post("/console/sign-out", data={"csrf": csrf_of(page.text)}, headers=FORM)
    browser.cookies = cookies
    async with asyncio.timeout(DEADLINE_S):
        last = [event async for event in stream]
    assert last[-1] == CLOSE % b"ended"
    assert live.feeds.running == 0
    assert (await browser.get("/console/live", params={"of": "/"})).status_code == 303


async def test_pages_that_stream_or_ask_show_that_the_store_is_away(world: ConsoleWorld) -> None:
    browser, away = await world("root"), Halt(Transient("Away", "no answer"))

    async def confirm() -> None:
        raise away

    long_ago = world.context.facade.now() - timedelta(minutes=5)
    screens = Screens(world.context, Freshness(confirm, lambda: long_ago, world.context.facade.now))
    assert screens.freshness is not None
    screens.freshness._confirmed = long_ago
    live = LiveUpdates(world.context, Sessions(world.context), screens)
    stream = events(live, browser, "/regions")
    async with asyncio.timeout(DEADLINE_S):
        while b"does not answer" not in await anext(stream):
            pass
    await stream.aclose()
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = [(b"host", b"localhost:8080"), (b"cookie", cookies.encode())]
    scope = {"type": "http", "method": "GET", "path": "/console/live", "headers": headers, "scheme": "http",
             "server": ("localhost", 8080), "query_string": b"of=/regions&once=1"}  # fmt: skip
    assert b"does not answer" in (await live.stream(Request(scope))).body
