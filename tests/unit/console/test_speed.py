"""C1: the pages of 10,000 environments: processor time of the server beside a reference work, and their size."""

from __future__ import annotations

import gzip
import time
from itertools import count
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenantry.api.facade_context import FacadeContext
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.model.resource import parse_time
from tenantry.runtime.cache import Cache
from tests.support.reference_work import reference_work, seconds_of

ENVIRONMENTS = 10_000
MOST_BYTES = 120_000
MOST_UNITS = 6.0
"""A page takes 0.3, a search without a hit 2: the reference work of one unit reads and renders 1,500 objects."""
ROUNDS = 20
VERSIONS = count(2)
TIME = "2026-11-23T08:00:00Z"


def environment(number: int, reason: str, version: int = 1) -> dict[str, Any]:
    ready = {"type": "Ready", "status": str(not reason), "reason": reason or "Succeeded", "message": "m" * 200}
    metadata = {"name": f"env-{number}", "namespace": f"tenant-t{number % 100}", "uid": f"u{number}", "generation": 1}
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {**metadata, "resourceVersion": str(version), "creationTimestamp": TIME},
        "spec": {"region": "here", "slug": f"s{number}", "displayName": f"Env {number * 7919 % 10007}"},
        "status": {"observedGeneration": 1, "conditions": [{**ready, "lastTransitionTime": TIME}]},
    }


@pytest.fixture(scope="module")
def cache() -> Cache:
    made = Cache(TYPES)
    for number in range(ENVIRONMENTS):
        made.absorb(environment(number, ("", "", "RegionNotFound", "EngineStarting")[number % 4]))
    return made


@pytest.fixture(scope="module")
def screens(cache: Cache) -> Screens:
    """Each of them follows the cache with 17 MiB of its own."""
    facade = SimpleNamespace(archives=None, now=lambda: parse_time(TIME))
    return Screens(cast(FacadeContext, SimpleNamespace(cache=cache, facade=facade)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("", {}),
        *(("environments", {"sort": sort}) for sort in ("state", "name", "newest", "oldest")),
        ("environments", {"q": "env 77"}),
        ("environments", {"q": "nothing has this name"}),
        ("environments", {"q": "env", "state": "waiting", "sort": "newest"}),
        ("environments", {"state": "ready", "sort": "newest"}),
    ],
)
async def test_a_page_of_many_environments_is_fast_and_small(
    cache: Cache, screens: Screens, path: str, query: dict[str, str]
) -> None:
    await screens.show(Rights(True), "regions", {})
    took, units, before = [], [], None
    for turn in range(ROUNDS):
        cache.absorb(environment(turn, "RegionNotFound", next(VERSIONS)))
        units.append(seconds_of(reference_work))
        began = time.thread_time()
        screen = await screens.show(Rights(True), path, query)
        took.append(time.thread_time() - began)
        assert screen is not before
        before = screen
    assert median(took) <= MOST_UNITS * median(units)
    assert len(gzip.compress(screen.content.encode(), 1)) <= MOST_BYTES


@pytest.mark.slow
async def test_a_page_is_rendered_once_until_something_changes(cache: Cache) -> None:
    now = [parse_time(TIME)]
    screens = Screens(
        cast(FacadeContext, SimpleNamespace(cache=cache, facade=SimpleNamespace(archives=None, now=lambda: now[0])))
    )
    tenant = Rights(False, "t1", "u", "tenant-t1")
    first, own = await screens.show(Rights(True), "", {}), await screens.show(tenant, "", {})
    assert await screens.show(Rights(True), "", {}) is first
    assert await screens.show(tenant, "", {}) is own
    assert own.content != first.content
    cache.absorb(environment(ENVIRONMENTS + 1, ""))
    second = await screens.show(Rights(True), "", {})
    assert "10001" in second.content
    now[0] = parse_time("2026-11-23T08:00:02Z")
    assert await screens.show(Rights(True), "", {}) is not second
