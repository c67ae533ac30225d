"""A watch reports a namespace without labels as the engine that it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.observed import FollowedObjects
from tenantry.adapters.kubernetes.engines.workload import labels_of
from tenantry.model.facts import EngineRef
from tenantry.model.resource import GROUP, Document
from tests.support.patience import DEADLINE_S

REF = EngineRef("tenant-acme", "dev", "an-id")
OTHER = EngineRef("tenant-other", "theirs", "an-id")


def namespace(version: str, labels: Mapping[str, str]) -> Document:
    metadata = {"name": "env-an-id", "uid": "u1", "resourceVersion": version, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


class Watched:
    """An API server with one namespace, and one change of it."""

    def __init__(self, change: Document) -> None:
        self._change = change

    async def request(self, method: str, path: str, **_: Any) -> Document:
        items = [namespace("1", labels_of(REF))] if path == "/api/v1/namespaces" else []
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Document]:
        if path == "/api/v1/namespaces":
            yield self._change
        await asyncio.Event().wait()


def without(label: str) -> dict[str, str]:
    return {key: value for key, value in labels_of(REF).items() if key != label}


CHANGES = {
    "the environment is taken off": ("MODIFIED", without(f"{GROUP}/environment"), {REF}),
    "the tenant's namespace is taken off": ("MODIFIED", without(f"{GROUP}/namespace"), {REF}),
    "it is labelled as another's": ("MODIFIED", labels_of(OTHER), {REF, OTHER}),
    "it is no longer selected": ("DELETED", without("app.kubernetes.io/name"), {REF}),
    "it is no longer selected, and says less": ("DELETED", {}, {REF}),
}


@pytest.mark.parametrize(("type_", "labels", "told"), CHANGES.values(), ids=CHANGES)
async def test_the_engine_that_it_was_is_told(type_: str, labels: dict[str, str], told: set[EngineRef]) -> None:
    followed = FollowedObjects(cast(Client, Watched({"type": type_, "object": namespace("2", labels)})))
    changes = followed.changes()
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert await anext(changes) == REF  # as it is listed
            assert {await anext(changes) for _ in told} == told
    finally:
        await changes.aclose()  # type: ignore[attr-defined]
