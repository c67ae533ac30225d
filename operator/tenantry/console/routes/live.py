"""Live updates: the content of a page as server-sent events, rendered once for all viewers with the same rights.

A feed listens to the cache. Nothing is asked for again and again, and a feed that nobody reads does not exist.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from urllib.parse import parse_qsl

import structlog
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.pages import HEADERS, Fragment, rendered
from tenantry.console.http.sessions import Sessions
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.region.spec import Region
from tenantry.model.verdicts import Halt, Unauthorized
from tenantry.runtime.cache import Cache, Seen

PAUSE_S = 0.25
"""Seconds between two renderings of one page, at least."""
LOOK_S = 3.0
"""Seconds after which a stream looks whether its session still holds, at the latest."""
STREAMS = 4
"""Streams of one session. A browser opens six connections to one origin: the others are for pages."""
LONGEST = 2_000
"""Characters of the address of a page."""

log = structlog.get_logger(__name__)


class PageFeed:
    """One page for one set of rights. When the cache changes, it is rendered and written as an event once for all readers."""

    def __init__(self, screens: Screens, rights: Rights, path: str, query: dict[str, str]) -> None:
        self._screens = screens
        self.rights = rights
        self._path = path
        self._query = query
        self.dirty = asyncio.Event()
        self._renewed = asyncio.Event()
        self.digest, self.event = "", b""
        self.readers = 0
        self.failed = False

    def seen(self, one: Seen) -> None:
        """Take note of a change of the cache."""
        if concerns(self.rights, one):
            self.dirty.set()

    async def run(self) -> None:
        """Render at the beginning and after each change, until cancelled."""
        while True:
            self.dirty.clear()
            fragment = await render(self._screens, self.rights, self._path, self._query)
            if fragment.digest != self.digest:
                self.digest, self.event = fragment.digest, ServerSentEvent(fragment.content, id=fragment.digest).encode()
                self._renewed.set()
                self._renewed = asyncio.Event()
            await asyncio.sleep(PAUSE_S)
            await self.dirty.wait()

    def end(self, task: asyncio.Task[None]) -> None:
        """Let the readers go if rendering failed; their browsers come again."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("console.feed", page=self._path, traceback="".join(traceback.format_exception(error)))
            self.failed = True
            self._renewed.set()

    async def newer(self, digest: str, seconds: float) -> bool:
        """Return True once the content is not the one with that digest; False after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.digest in ("", digest) and not self.failed:
                    await self._renewed.wait()
        return self.digest not in ("", digest)


class Feeds:
    """The feeds that somebody reads."""

    def __init__(self, cache: Cache, screens: Screens) -> None:
        self._cache = cache
        self._screens = screens
        self._feeds: dict[tuple[Rights, str], tuple[PageFeed, asyncio.Task[None]]] = {}
        self._unlisten: tuple[Callable[[], None], ...] = ()

    @property
    def running(self) -> int:
        """The number of feeds."""
        return len(self._feeds)

    def enter(self, rights: Rights, of: str) -> PageFeed:
        """The feed of a page, which runs until each reader has left it."""
        if not self._feeds:
            aging = self._screens.freshness
            self._unlisten = (self._cache.listen(self._seen), *([aging.listen(self._aged)] if aging is not None else []))
        held = self._feeds.get((rights, of))
        if held is None:
            feed = PageFeed(self._screens, rights, *page_of(of))
            held = self._feeds[rights, of] = (feed, asyncio.create_task(feed.run(), name="console feed"))
            held[1].add_done_callback(feed.end)
        held[0].readers += 1
        return held[0]

    def leave(self, rights: Rights, of: str) -> None:
        """Undo one `enter`."""
        feed, task = self._feeds[rights, of]
        feed.readers -= 1
        if not feed.readers:
            task.cancel()
            del self._feeds[rights, of]
        if not self._feeds:
            for unlisten in self._unlisten:
                unlisten()

    def _aged(self) -> None:
        for feed, _ in self._feeds.values():
            feed.dirty.set()

    def _seen(self, one: Seen) -> None:
        if one.ref.kind in TYPES:
            for feed, _ in self._feeds.values():
                feed.seen(one)


class LiveUpdates:
    """GET /console/live."""

    def __init__(self, context: FacadeContext, sessions: Sessions, screens: Screens) -> None:
        self._context = context
        self._sessions = sessions
        self._screens = screens
        self._open: Counter[str] = Counter()
        self.feeds = Feeds(context.cache, screens)

    async def stream(self, request: Request) -> Response:
        """The content of a page, at each change; with `once=1` as it is now, or 204 while it is as the browser has it."""
        principal = await self._sessions.principal(request)
        rights, of = Rights.of(principal), request.query_params.get("of", "/")[:LONGEST]
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        if request.query_params.get("once"):
            self._note_reader()
            fragment = await render(self._screens, rights, *page_of(of))
            if fragment.digest == seen:
                return Response(status_code=204, headers=HEADERS)
            return Response(fragment.content, 200, HEADERS, "text/html; charset=utf-8")
        return EventSourceResponse(self._events(request, rights, of, seen), headers=HEADERS, ping=15)

    async def _events(self, request: Request, rights: Rights, of: str, seen: str) -> AsyncIterator[bytes]:
        session = self._sessions.csrf(request)
        if self._open[session] >= STREAMS:
            yield ServerSentEvent("poll", event="close").encode()
            return
        self._open[session] += 1
        feed = self.feeds.enter(rights, of)
        try:
            while not feed.failed and await self._holds(request, rights):
                if await feed.newer(seen, LOOK_S) and await self._holds(request, rights):
                    seen = feed.digest
                    yield feed.event
            if not feed.failed:
                yield ServerSentEvent("ended", event="close").encode()
        finally:
            self.feeds.leave(rights, of)
            self._open[session] -= 1
            self._open += Counter()  # forgets sessions without streams

    def _note_reader(self) -> None:
        if self._screens.freshness is not None:
            self._screens.freshness.reading()

    async def _holds(self, request: Request, rights: Rights) -> bool:
        self._note_reader()
        try:
            return Rights.of(await self._context.authenticator.principal(self._sessions.signed(request))) == rights
        except Unauthorized:
            return False


async def render(screens: Screens, rights: Rights, path: str, query: dict[str, str]) -> Fragment:
    """The content of a page; that of the refusal where it is gone."""
    try:
        return (await screens.show(rights, path, query)).fragment
    except Halt as halt:
        return Fragment.of(rendered("gone.html", {"message": halt.told}))


def page_of(of: str) -> tuple[str, dict[str, str]]:
    """The path and the query of a page's address below /console."""
    path, _, query = of.partition("#")[0].partition("?")
    return path, dict(parse_qsl(query))


def concerns(rights: Rights, one: Seen) -> bool:
    """Return True if a change may be on a page of somebody with those rights."""
    if rights.superuser or one.ref.kind == Region.KIND:
        return True
    if one.ref.kind == Operation.KIND:
        return f"tenant={rights.tenant_uid}" in one.keys
    return one.ref.namespace == rights.namespace
