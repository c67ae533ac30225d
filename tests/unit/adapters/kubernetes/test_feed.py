"""Lists in pages, and watches that go on from where they stopped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.hosts.standalone import listed
from tenantry.model.verdicts import Expired
from tests.support.patience import DEADLINE_S
from tests.unit.adapters.kubernetes.scripted import Say, client_of, refused, serving, told


def item(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "managedFields": [{}]}}


def change(type_: str, name: str, version: int) -> dict[str, Any]:
    return {"type": type_, "object": item(name, version)}


def page(*items: dict[str, Any], version: str = "9", following: str = "") -> Say:
    metadata = {"resourceVersion": version, **({"continue": following} if following else {})}
    return Say(body={"items": items, "metadata": metadata})


async def followed(feed: KubernetesFeed, count: int, version: str = "1") -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in feed.watch("Tenant", version):
            seen.append((event.type, event.document["metadata"]["name"]))
            if len(seen) == count:
                break
    return seen


async def test_a_list_has_the_items_of_all_pages() -> None:
    script = (page(item("a", 1), following="next"), page(item("b", 2)))
    async with serving(*script) as server, client_of(server.url) as client:
        documents, version = await listed(KubernetesFeed(client, page=1), "Tenant")
    assert [document["metadata"]["name"] for document in documents] == ["a", "b"]
    assert all(document["kind"] == "Tenant" and "managedFields" not in document["metadata"] for document in documents)
    assert version == "9"
    assert [request.query.get("continue") for request in server.asked] == [None, "next"]


async def test_a_list_whose_next_page_has_expired_is_begun_anew_in_one_piece() -> None:
    script = (page(item("old", 1), following="next"), refused(410, "Expired"), page(item("a", 3), item("b", 4), version="12"))
    async with serving(*script) as server, client_of(server.url) as client:
        documents, _ = await listed(KubernetesFeed(client, page=1), "Tenant")
    assert [document["metadata"]["name"] for document in documents] == ["a", "b"]
    assert "limit" not in server.asked[-1].query


async def test_secrets_that_are_nobodys_credential_are_not_asked_for() -> None:
    async with serving(page()) as server, client_of(server.url) as client:
        await listed(KubernetesFeed(client), "Secret")
    assert server.asked[0].query["labelSelector"] == "tenantry.dev/credential"


INTERRUPTIONS = {
    "the server ends it": told(change("ADDED", "a", 5)),
    "the connection breaks": told(change("ADDED", "a", 5), cut=True),
    "the server says that it cannot": told(change("ADDED", "a", 5), {"type": "ERROR", "object": {"code": 500}}),
}


@pytest.mark.parametrize("first", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
async def test_a_watch_goes_on_from_its_last_event(first: Say) -> None:
    async with serving(first, told(change("MODIFIED", "a", 6))) as server, client_of(server.url) as client:
        assert await followed(KubernetesFeed(client), 2) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert [request.query["resourceVersion"] for request in server.asked[:2]] == ["1", "5"]


async def test_a_watch_goes_on_from_its_last_bookmark() -> None:
    script = (told(change("BOOKMARK", "", 40)), told(change("ADDED", "a", 41)))
    async with serving(*script) as server, client_of(server.url) as client:
        assert await followed(KubernetesFeed(client), 1) == [("ADDED", "a")]
    assert server.asked[1].query["resourceVersion"] == "40"


PASSING = {
    "unavailable": refused(503, "ServiceUnavailable"),
    "a right that is missing for a while": refused(403, "Forbidden"),
    "a definition that is made anew": refused(404, "NotFound"),
    "a token that was rotated": refused(401, "Unauthorized"),
    "an end without a word": Say(chunks=(b"",)),
}


@pytest.mark.parametrize("first", PASSING.values(), ids=PASSING)
async def test_a_watch_outlasts(first: Say) -> None:
    async with serving(first, told(change("ADDED", "a", 2))) as server, client_of(server.url) as client:
        assert await followed(KubernetesFeed(client), 1) == [("ADDED", "a")]


EXPIRED = {
    "at once": refused(410, "Expired"),
    "within the stream": told({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}),
    "as too new, after a restored backup": refused(504, details={"causes": [{"reason": "ResourceVersionTooLarge"}]}),
}


@pytest.mark.parametrize("answer", EXPIRED.values(), ids=EXPIRED)
async def test_an_expired_version_is_told(answer: Say) -> None:
    async with serving(answer) as server, client_of(server.url) as client:
        with pytest.raises(Expired):
            await followed(KubernetesFeed(client), 1)
