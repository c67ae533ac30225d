"""The objects of a kind that carry certain labels: all there are, then each change, through every interruption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import refusal
from tenantry.model.resource import Document
from tenantry.model.verdicts import Expired, Halt

log = structlog.get_logger(__name__)

PAUSE_S = 1.0
"""Between two requests of a watch."""
WATCH_S = 290


class Listed(NamedTuple):
    """All that there are: at the start, and wherever a watch could not go on from where it ended."""

    objects: Sequence[Document]


class Changed(NamedTuple):
    """One of them was added, modified or deleted."""

    type: str
    object: Document


async def watch_labelled(client: Client, path: str, selector: str) -> AsyncIterator[Listed | Changed]:
    """Without end. path: of the kind, in all namespaces."""
    version = ""
    while True:
        try:
            if not version:
                found = await client.request("GET", path, query={"labelSelector": selector})
                version = str(found["metadata"]["resourceVersion"])
                yield Listed(found["items"])
            async for change in client.stream(path, watch_query(selector, version)):
                if change["type"] == "ERROR":
                    raise refusal(change["object"].get("code", 500), change["object"])
                version = change["object"]["metadata"]["resourceVersion"]
                if change["type"] != "BOOKMARK":
                    yield Changed(change["type"], change["object"])
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
