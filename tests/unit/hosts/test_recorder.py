"""Kubernetes Events: their content and number, and that nothing waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from tenantry.hosts.recorder import BURST, Bucket, Recorder, transition
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Ref
from tenantry.runtime.cache import Cache
from tests.support.waiting import eventually
from tests.unit.adapters.kubernetes.scripted import Say, Server, client_of, refused, serving

NOW = datetime(2026, 11, 21, 9, 30, 15, 123456, UTC)
ACME = Ref("Tenant", "", "acme")
OTHER = Ref("Environment", "tenant-blue", "dev")
WAITS = ("False", "NamespaceDeleting", "is going")


def tenant(version: int, ready: tuple[str, str, str] | None, *, stalled: bool = False) -> dict[str, Any]:
    conditions = [dict(zip(("status", "reason", "message"), ready, strict=True), type="Ready")] if ready else []
    if stalled:
        conditions.append({"type": "Stalled", "status": "True", "reason": "any", "message": ""})
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "acme", "uid": "u-1", "resourceVersion": str(version)},
        "spec": {},
        "status": {"conditions": conditions},
    }


def other(version: int, ready: tuple[str, str, str] | None) -> dict[str, Any]:
    """An environment of another tenant."""
    document = tenant(version, ready) | {"kind": "Environment", "spec": {"region": "home"}}
    return document | {"metadata": document["metadata"] | {"name": "dev", "namespace": "tenant-blue"}}


TOLD: dict[str, tuple[Any, Any, tuple[str, str, str] | None]] = {
    "the first look": (tenant(1, None), tenant(2, WAITS), ("Normal", "NamespaceDeleting", "is going")),
    "ready": (tenant(1, WAITS), tenant(2, ("True", "Succeeded", "")), ("Normal", "Succeeded", "Ready")),
    "a person must act": (
        tenant(1, WAITS),
        tenant(2, ("False", "SlugTaken", "taken"), stalled=True),
        ("Warning", "SlugTaken", "taken"),
    ),
    "another message alone": (tenant(1, WAITS), tenant(2, ("False", "NamespaceDeleting", "still")), None),
    "not looked at yet": (tenant(1, None), tenant(2, None), None),
}


@pytest.mark.parametrize(("before", "after", "expected"), TOLD.values(), ids=TOLD)
def test_a_transition_of_ready_is_told(before: Any, after: Any, expected: tuple[str, str, str] | None) -> None:
    told = transition(before, after)
    assert (told and (told.severity, told.reason, told.message)) == expected


def test_a_bucket_gives_a_burst_and_then_so_many_a_second() -> None:
    clock = [0.0]
    bucket = Bucket(lambda: clock[0], burst=2, per_second=1.0)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    clock[0] = 1.0
    assert [bucket.take() for _ in range(2)] == [True, False]


@asynccontextmanager
async def recording(*script: Say) -> AsyncIterator[tuple[Cache, Server]]:
    cache = Cache(TYPES)
    async with serving(*script) as server, client_of(server.url) as client:
        recorder = Recorder(client, cache, "operator-1", time=lambda: 0.0, now=lambda: NOW)
        running = asyncio.create_task(recorder.run())
        await asyncio.sleep(0)
        try:
            yield cache, server
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def asked(server: Server, count: int) -> None:
    """Returns when the server was asked so often."""
    await eventually(lambda: len(server.asked) >= count, shows=lambda: server.asked)


def toggle(cache: Cache, times: int, origin: Ref | None = ACME) -> None:
    """acme waits and becomes ready in turn."""
    for number in range(times + 1):
        ready = WAITS if number % 2 else ("True", "Succeeded", "")
        cache.absorb(tenant(number + 1, ready), origin)


async def test_an_event_names_its_object_and_says_what_its_condition_says() -> None:
    async with recording(Say()) as (cache, server):
        toggle(cache, 1)
        await asked(server, 1)
        event = json.loads(await server.asked[0].read())
    assert (server.asked[0].method, server.asked[0].path) == ("POST", "/api/v1/namespaces/default/events")
    assert event["involvedObject"] == {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Tenant",
        "name": "acme",
        "namespace": "",
        "uid": "u-1",
        "resourceVersion": "2",
    }
    said = {key: event[key] for key in ("type", "reason", "message", "count", "lastTimestamp", "reportingInstance")}
    assert said == {
        "type": "Normal",
        "reason": "NamespaceDeleting",
        "message": "is going",
        "count": 1,
        "lastTimestamp": "2026-11-21T09:30:15Z",
        "reportingInstance": "operator-1",
    }


async def test_what_was_told_before_is_counted() -> None:
    async with recording(refused(409, "AlreadyExists"), Say(body={"count": 4}), Say()) as (cache, server):
        toggle(cache, 1)
        await asked(server, 3)
        assert server.methods == ["POST", "GET", "PATCH"]
        assert json.loads(await server.asked[2].read()) == {"count": 5, "lastTimestamp": "2026-11-21T09:30:15Z"}


async def test_what_flaps_is_told_no_more_than_the_bucket_gives_and_holds_up_no_other_namespace() -> None:
    async with recording(Say()) as (cache, server):
        toggle(cache, 3 * BURST)
        for version, ready in ((1, None), (2, WAITS)):
            cache.absorb(other(version, ready), OTHER)
        await asked(server, BURST + 1)
        namespaces = [request.path.split("/")[4] for request in server.asked]
        assert namespaces == ["default"] * BURST + ["tenant-blue"]


@pytest.mark.parametrize("origins", [(ACME, None), (None, ACME)], ids=["the answer first", "the watch first"])
async def test_a_write_is_told_once_whether_its_answer_or_the_watch_comes_first(origins: tuple[Ref | None, ...]) -> None:
    async with recording(Say()) as (cache, server):
        for version, ready in ((1, None), (2, WAITS), (3, ("True", "Succeeded", ""))):
            for origin in origins:
                cache.absorb(tenant(version, ready), origin)
        await asked(server, 2)
        reasons = [json.loads(await request.read())["reason"] for request in server.asked]
        assert reasons == ["NamespaceDeleting", "Succeeded"]


async def test_an_event_that_is_refused_is_logged_and_the_next_one_is_posted() -> None:
    async with recording(refused(403, "Forbidden"), Say()) as (cache, server):
        with capture_logs() as logs:
            toggle(cache, 2)
            await asked(server, 2)
    assert [each["event"] for each in logs] == ["event not posted"]
