"""A watch of labelled objects: all there are, in pages, then each change; what its reader does not keep is let go."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

from tenantry.adapters.kubernetes.client.watching import Changed, Listed, watch_labelled
from tenantry.model.resource import Document
from tests.support.patience import DEADLINE_S
from tests.unit.adapters.kubernetes.scripted import Say, client_of, serving, told

PATH = "/api/v1/configmaps"


def item(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(*names: str, following: str = "") -> Say:
    metadata = {"resourceVersion": "9", **({"continue": following} if following else {})}
    return Say(body={"items": [item(name, 1) for name in names], "metadata": metadata})


def name_of(document: Document) -> str:
    return str(document["metadata"]["name"])


async def test_a_list_of_several_pages_is_told_once_and_then_each_change() -> None:
    script = (page("a", following="next"), page("b"), told({"type": "ADDED", "object": item("c", 10)}))
    async with serving(*script) as server, client_of(server.url) as client, asyncio.timeout(DEADLINE_S):
        events = watch_labelled(client, PATH, "app=x", name_of)
        assert [await anext(events), await anext(events)] == [Listed(["a", "b"]), Changed("ADDED", "c")]
    assert [request.query.get("continue") for request in server.asked] == [None, "next", None]
    assert {request.query["labelSelector"] for request in server.asked} == {"app=x"}
    assert server.asked[-1].query["resourceVersion"] == "9"


async def test_what_was_listed_is_not_held_by_the_watch() -> None:
    class Kept:
        """One object."""

    script = (page("a", "b"), told({"type": "ADDED", "object": item("c", 10)}))
    async with serving(*script) as server, client_of(server.url) as client, asyncio.timeout(DEADLINE_S):
        events: AsyncIterator[Listed[Kept] | Changed[Kept]] = watch_labelled(client, PATH, "app=x", lambda document: Kept())
        listed = [weakref.ref(each) for each in (await anext(events)).objects]  # type: ignore[union-attr]
        await anext(events)
        gc.collect()
        assert [each() for each in listed] == [None, None]
