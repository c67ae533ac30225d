"""The objects of a kind that carry certain labels: all there are, then each change, through every interruption.

Of each object only what its reader keeps is held: a list is read in pages, and all of them at once would be the most that a
process ever has in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import refusal
from tenantry.model.resource import Document
from tenantry.model.verdicts import Expired, Halt

log = structlog.get_logger(__name__)

T = TypeVar("T")
PAGE = 500
"""Objects in an answer of a list."""
PAUSE_S = 1.0
"""Between two requests of a watch."""
WATCH_S = 290


class Listed(NamedTuple, Generic[T]):
    """All that there are: at the start, and wherever a watch could not go on from where it ended."""

    objects: Sequence[T]


class Changed(NamedTuple, Generic[T]):
    """One of them was added, modified or deleted."""

    type: str
    object: T


async def watch_labelled(
    client: Client, path: str, selector: str, kept: Callable[[Document], T]
) -> AsyncIterator[Listed[T] | Changed[T]]:
    """Without end. path: of the kind, in all namespaces. kept: what the reader keeps of an object."""
    version = ""
    while True:
        try:
            if not version:
                found: list[T] = []
                async for page in pages(client, path, {"labelSelector": selector, "limit": str(PAGE)}):
                    found += map(kept, page["items"])
                version = page["metadata"]["resourceVersion"]
                yield Listed(found)
                del found, page  # the watch takes days
            async for change in client.stream(path, watch_query(selector, version)):
                if change["type"] == "ERROR":
                    raise refusal(change["object"].get("code", 500), change["object"])
                version = change["object"]["metadata"]["resourceVersion"]
                if change["type"] != "BOOKMARK":
                    yield Changed(change["type"], kept(change["object"]))
        except Expired:
            version = ""
        except Halt as halt:
            log.warning("watch interrupted", path=path, error=str(halt))
        await asyncio.sleep(PAUSE_S)


async def pages(client: Client, path: str, query: Mapping[str, str]) -> AsyncIterator[Document]:
    """Yield the answers of a list, which are of one version. query: its `limit` is the size of a page. Raises Halt."""
    asked = dict(query)
    while True:
        answer = await client.request("GET", path, query=asked)
        yield answer
        following = answer["metadata"].get("continue")
        if not following:
            return
        asked["continue"] = following


def watch_query(selector: str, version: int | str) -> dict[str, str]:
    """Of a watch of what carries these labels, from after that version, with bookmarks."""
    return {
        "watch": "1",
        "labelSelector": selector,
        "allowWatchBookmarks": "true",
        "resourceVersion": str(version),
        "timeoutSeconds": str(WATCH_S),
    }
