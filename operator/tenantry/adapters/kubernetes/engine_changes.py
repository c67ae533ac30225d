"""Engines that changed by themselves: watches of their workloads and pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from tenantry.adapters.kubernetes.client import Client
from tenantry.adapters.kubernetes.objects import path_of
from tenantry.adapters.kubernetes.wire import refusal
from tenantry.adapters.kubernetes.workload import MANAGED_BY, ref_of_labels
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Expired, Halt

log = structlog.get_logger(__name__)

PAUSE_S = 1.0
"""Between two requests of a watch."""
WATCH_S = 290
_SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_WATCHED = (("apps/v1", "StatefulSet"), ("v1", "Pod"))


async def engine_changes(client: Client) -> AsyncIterator[EngineRef]:
    """Engines whose workload or pod changed, without end; at the start all that there are. Without slugs."""
    changed: asyncio.Queue[EngineRef] = asyncio.Queue()
    watches = [asyncio.create_task(_watch(client, path_of(*kind), changed)) for kind in _WATCHED]
    try:
        while True:
            yield await changed.get()
    finally:
        for watch in watches:
            watch.cancel()


async def _watch(client: Client, path: str, changed: asyncio.Queue[EngineRef]) -> None:
    """Goes on from where a watch ended; where it cannot, all engines are told anew."""
    version = ""
    while True:
        try:
            version = version or await _tell_all(client, path, changed)
            async for change in client.stream(path, _watching(version)):
                if change["type"] == "ERROR":
                    raise refusal(change["object"].get("code", 500), change["object"])
                version = change["object"]["metadata"]["resourceVersion"]
                if change["type"] != "BOOKMARK":
                    _tell(change["object"], changed)
        except Expired:
            version = ""
        except Halt as halt:
            log.warning("watch of engines interrupted", path=path, error=str(halt))
        await asyncio.sleep(PAUSE_S)


async def _tell_all(client: Client, path: str, changed: asyncio.Queue[EngineRef]) -> str:
    """The version from which to watch."""
    found = await client.request("GET", path, query={"labelSelector": _SELECTOR})
    for item in found["items"]:
        _tell(item, changed)
    return str(found["metadata"]["resourceVersion"])


def _tell(item: Document, changed: asyncio.Queue[EngineRef]) -> None:
    ref = ref_of_labels(item["metadata"].get("labels") or {})
    if ref is not None:
        changed.put_nowait(ref)


def _watching(version: str) -> dict[str, str]:
    return {
        "watch": "1",
        "labelSelector": _SELECTOR,
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(WATCH_S),
    }
