"""The host on Kubernetes: kopf copies no objects for it, and a list is judged once its events have come."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import kopf
import pytest
from kopf._cogs.structs.references import Resource
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.reactor import inventory, processing

from tenantry.hosts.kopf_host import RELIST_SETTLES_S, Watched, operator_settings, settled
from tenantry.hosts.reported_list import ReportedList

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
            memobase=object(),
            resource=Resource("example.com", "v1", "widgets", kind="Widget", namespaced=True, verbs=frozenset({"list", "watch"})),
            raw_event={"type": type_, "object": body},  # type: ignore[typeddict-item]
            event_queue=asyncio.Queue(),
        )

    with caplog.at_level(logging.ERROR):
        asyncio.run(process())
    assert taken == [(type_, "one")]
    assert not caplog.records


def test_a_list_is_judged_once_its_events_have_come() -> None:
    listings = {"Tenant": ReportedList(10.0), "Environment": ReportedList(11.5)}
    assert settled(listings, 10.0 + RELIST_SETTLES_S - 0.1) == []
    assert settled(listings, 10.0 + RELIST_SETTLES_S) == ["Tenant"]
    assert settled(listings, 11.5 + RELIST_SETTLES_S) == ["Tenant", "Environment"]
