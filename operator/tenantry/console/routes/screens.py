"""The pages with content: which template shows what, for a caller's rights. The whole page and its live updates share them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.pages import Fragment, rendered
from tenantry.console.reading.freshness import Freshness
from tenantry.console.reading.rights import PLURALS, Rights, find
from tenantry.console.reading.summaries import Summaries
from tenantry.console.texts import TEXTS, kind_words
from tenantry.console.views.fleet import fleet
from tenantry.console.views.health import health
from tenantry.console.views.lists import listing
from tenantry.console.views.logs import log_window
from tenantry.console.views.objects import object_view, operation_view
from tenantry.console.views.rows import Reading
from tenantry.console.views.searching import found
from tenantry.kinds.operation.spec import Operation
from tenantry.model.verdicts import Forbidden, Halt, NotFound
from tenantry.runtime.health import PlatformMeasures

HEALTH = "health"
KEPT = 64
"""Contents that are kept, at most."""
KEPT_FOR = timedelta(seconds=1)
"""Relative times go on by the second."""


class Screen(NamedTuple):
    """A rendered content. here: the plural of the page's kind, `""` for the fleet."""

    title: str
    here: str
    fragment: Fragment

    @property
    def content(self) -> str:
        """Its HTML."""
        return self.fragment.content


class KeptScreen(NamedTuple):
    """A content that was rendered of a state of the cache."""

    screen: Screen
    version: int
    old_since: datetime | None
    until: datetime


class Screens:
    """Renders contents from the cache, once for all callers with the same rights as long as nothing changes."""

    def __init__(self, context: FacadeContext, freshness: Freshness | None = None) -> None:
        self._context = context
        self.freshness = freshness
        self._summaries = Summaries(context.cache)
        self._kept: dict[tuple[Rights, str, frozenset[tuple[str, str]]], KeptScreen] = {}

    async def show(self, rights: Rights, path: str, query: Mapping[str, str]) -> Screen:
        """The content at a path below /console/. Raises NotFound, Forbidden."""
        await self._summaries.follow()
        key, now = (rights, path, frozenset(query.items())), self._context.facade.now()
        kept = self._kept.get(key)
        version, old_since = self._summaries.version, self.old_since
        if kept is not None and (kept.version, kept.old_since) == (version, old_since) and now < kept.until:
            return kept.screen
        screen = await self._rendered(rights, path, query)
        if screen.here != Operation.PLURAL:  # logs are not of the cache
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[key] = KeptScreen(screen, version, old_since, now + KEPT_FOR)
        return screen

    async def _rendered(self, rights: Rights, path: str, query: Mapping[str, str]) -> Screen:
        reading = await self.reading(rights)
        plural, _, id_ = path.strip("/").partition("/")
        if not plural:
            return self._screen(TEXTS["fleet"], "", "fleet.html", fleet(reading))
        if (plural, id_) == ("search", ""):
            return self._screen(TEXTS["search_do"], plural, "search.html", found(reading, query))
        if (plural, id_) == (HEALTH, "") and (measures := self._context.facade.measures) is not None:
            if not rights.superuser:
                raise Forbidden("only a SUPERUSER may see this")
            return self._screen(TEXTS["health"], plural, "health.html", health(reading, await self._with_loop(measures)))
        kind = PLURALS.get(plural, "")
        if not kind or "/" in id_:
            raise NotFound(f"no page {path}")
        if kind not in rights.kinds:
            raise Forbidden("only a SUPERUSER may see this")
        if not id_:
            return self._screen(kind_words(kind)[1], plural, "list.html", listing(reading, kind, query))
        return await self._one(reading, kind, id_, query)

    async def _with_loop(self, measures: PlatformMeasures) -> PlatformMeasures:
        """Return the numbers with those of the reconcile loop, also where it is another process's and that one answers."""
        loop = self._context.facade.loop
        return measures if loop is None else measures._replace(loop=await loop())

    @property
    def old_since(self) -> datetime | None:
        """The time of the data, if it is old."""
        return self.freshness.old_since if self.freshness is not None else None

    def old_banner(self) -> str:
        """The HTML that shows the age of the data, `""` while it is not old."""
        if self.old_since is None:
            return ""
        return rendered("old.html", {"since": self.old_since, "now": self._context.facade.now()})

    async def reading(self, rights: Rights) -> Reading:
        """The cache as somebody with those rights sees it."""
        await self._summaries.follow()
        facade = self._context.facade
        return Reading(
            self._context.cache, self._summaries, rights, lambda source: source in facade.writers, facade.archives is not None
        )

    async def _one(self, reading: Reading, kind: str, id_: str, query: Mapping[str, str]) -> Screen:
        one = find(self._context.cache, reading.rights, kind, id_)
        plural = type(one).PLURAL
        if isinstance(one, Operation):
            log, fault = await self._log(one)
            window = await asyncio.to_thread(log_window, log, query)  # a search reads all of a long log
            values = operation_view(reading, one, window, fault)
            return self._screen(values["row"].title, plural, "operation.html", values)
        values = object_view(reading, one)
        return self._screen(values["row"].title, plural, "object.html", values)

    async def _log(self, operation: Operation) -> tuple[str, str]:
        """The whole log; the newest part and the reason where the whole cannot be read."""
        try:
            return await self._context.facade.logs.read(operation.id) or operation.status.logs, ""
        except Halt as halt:
            return operation.status.logs, halt.told

    def _screen(self, title: str, here: str, template: str, values: Mapping[str, Any]) -> Screen:
        values = {**values, "now": self._context.facade.now()}
        return Screen(title, here, Fragment.of(self.old_banner() + rendered(template, values)))
