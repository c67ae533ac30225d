"""Feed on a real API server: paged lists, and watches that go on by themselves from where they stopped."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.watching import PAGE, pages
from tenantry.adapters.kubernetes.client.wire import endpoint, received, refusal
from tenantry.model.resource import Document
from tenantry.model.verdicts import Expired, Halt
from tenantry.ports import Event

log = structlog.get_logger(__name__)

WATCH_S = 290
"""After which the server ends a watch; less than five minutes, at which load balancers do."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 15.0


class KubernetesFeed:
    """tenantry.ports.Feed over an API server."""

    def __init__(
        self, client: Client, *, page: int = PAGE, watch_s: int = WATCH_S, only_in: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """page: objects a request of a list; watch_s: seconds a request of a watch; only_in: by kind, the one namespace of
        which it is followed, where its reader has no right to more.
        """
        self._client = client
        self._page = page
        self._watch_s = watch_s
        self._only_in = only_in
        self._broken: dict[str, datetime] = {}

    def interrupted(self) -> datetime | None:
        """The time since which the changes of some kind do not arrive, None while all do."""
        return min(self._broken.values(), default=None)

    async def pages(self, kind: str) -> AsyncIterator[tuple[Sequence[Document], str]]:
        """One consistent state. A list whose next page has expired is begun anew, in one piece."""
        try:
            async for page in self._pages(kind, self._page):
                yield page
        except Expired:
            async for page in self._pages(kind, 0):
                yield page

    async def watch(self, kind: str, version: str) -> AsyncIterator[Event]:
        """Goes on by itself whatever ends it, be it an outage or a right that is missing for a while; raises Expired alone."""
        if not version.isdecimal():
            raise Expired(f"{version!r} is not a version of an API server")
        failures = 0
        while True:
            ended = "the server ended it at once"
            try:
                async for change in self._changes(kind, version):
                    version, failures, ended = change["object"]["metadata"]["resourceVersion"], 0, ""
                    if change["type"] != "BOOKMARK":
                        yield Event.of(change["type"], received(change["object"], kind))
            except Expired:
                raise
            except Halt as halt:
                ended = str(halt)
            if ended:
                failures += 1
                self._broken.setdefault(kind, datetime.now(UTC))
                log.warning("watch interrupted", kind=kind, version=version, failures=failures, error=ended)
                await asyncio.sleep(_pause(failures))

    async def _pages(self, kind: str, page: int) -> AsyncIterator[tuple[Sequence[Document], str]]:
        at = endpoint(kind)
        query = {"labelSelector": at.selector} if at.selector else {}
        if page:
            query["limit"] = str(page)
        async for answer in pages(self._client, at.path(self._only_in.get(kind, "")), query):
            yield [received(item, kind) for item in answer["items"]], answer["metadata"]["resourceVersion"]

    async def _changes(self, kind: str, version: str) -> AsyncIterator[dict[str, Any]]:
        """The changes of one request. Raises what the server says within the stream, too."""
        at = endpoint(kind)
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(self._watch_s),
            **({"labelSelector": at.selector} if at.selector else {}),
        }

        def opened() -> None:
            self._broken.pop(kind, None)

        async for change in self._client.stream(at.path(self._only_in.get(kind, "")), query, opened):
            if change["type"] == "ERROR":
                raise refusal(change["object"].get("code", 500), change["object"])
            yield change


def _pause(failures: int) -> float:
    """Seconds; full jitter, so that a server that comes back does not meet every watch at once."""
    return random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures, 10)))  # noqa: S311 - jitter
