"""The host on Kubernetes: kopf copies no objects for it, and lists none."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import kopf
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from kopf._cogs.structs.references import Resource
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.reactor import inventory, processing

from tenantry.hosts.kopf_host import NOTHING, EmptyLists, KopfSession, Watched, operator_settings

WIDGETS = Watched("Widget", "example.com/v1", "widgets")


class Uncopied(dict[str, Any]):
    """Part of an object that nobody may copy."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("kopf copies the object")


@pytest.mark.parametrize("type_", [None, "ADDED", "MODIFIED", "DELETED"])
def test_an_event_reaches_its_handler_and_nothing_copies_the_object(type_: str | None, caplog: pytest.LogCaptureFixture) -> None:
    taken: list[Any] = []
    registry = kopf.OperatorRegistry()

    async def take(event: Any, **_: Any) -> None:
        taken.append((event["type"], event["object"]["metadata"]["name"]))

    kopf.on.event(group="example.com", version="v1", plural="widgets", registry=registry)(take)
    metadata = {"name": "one", "uid": "u", "resourceVersion": "7"}
    body = {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": metadata, "spec": Uncopied(many="values")}

    async def process() -> None:
        await processing.process_resource_event(
            lifecycle=kopf.lifecycles.all_at_once,
            indexers=OperatorIndexers(),
            registry=registry,
            settings=operator_settings([WIDGETS]),
            memories=inventory.ResourceMemories(),
            memobase=cast(Any, object()),
            resource=Resource("example.com", "v1", "widgets", kind="Widget", namespaced=True, verbs=frozenset({"list", "watch"})),
            raw_event={"type": type_, "object": body},  # type: ignore[typeddict-item]
            event_queue=asyncio.Queue(),
        )

    with caplog.at_level(logging.ERROR):
        asyncio.run(process())
    assert taken == [(type_, "one")]
    assert not caplog.records


async def test_a_list_is_asked_for_without_objects_and_reported_and_nothing_else_is_changed() -> None:
    asked: list[dict[str, str]] = []
    told: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.json_response({}, status=410 if request.query.get("continue") else 200)

    server = web.Application()
    server.router.add_get("/{path:.*}", answer)
    async with TestServer(server) as served, ClientSession(middlewares=(EmptyLists([WIDGETS], told.append),)) as session:
        listed, other = served.make_url("/cluster/apis/example.com/v1/widgets"), served.make_url("/apis/example.com/v1")
        for url in (
            listed.with_query(labelSelector="a=b"),
            listed.with_query(watch="true", resourceVersion="7"),
            listed.with_query({"continue": "late"}),
            other,
        ):
            async with session.get(url):
                pass
    assert asked == [
        {"labelSelector": "a=b", "fieldSelector": NOTHING},
        {"watch": "true", "resourceVersion": "7"},
        {"continue": "late", "fieldSelector": NOTHING},
        {},
    ]
    assert told == ["Widget"]


async def test_sessions_with_the_same_credentials_are_equal() -> None:
    async with ClientSession() as one, ClientSession() as other:
        first, again, renewed = (
            KopfSession(server="https://server", aiohttp_session=session, authorization=f"Bearer {token}")
            for session, token in ((one, "a"), (other, "a"), (other, "b"))
        )
        assert first == again != renewed
