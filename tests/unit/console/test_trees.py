"""C3: the tree of a Tenant with many objects, its causes, and the search."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenantry.api.facade_context import FacadeContext
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.console.views.trees import DRAWN
from tenantry.model.resource import parse_time
from tenantry.runtime.cache import Cache
from tests.scenario.console.console_world import Parsed
from tests.support.reference_work import unit_s

TIME = "2026-11-23T08:00:00Z"
EACH = 10
MOST_UNITS = 100
"""The tree takes about 25."""
ROOT = Rights(True)


def document(
    kind: str, name: str, spec: dict[str, Any], inside: str = "tenant-acme", reason: str = "", **status: Any
) -> dict[str, Any]:
    ready = {"type": "Ready", "status": str(not reason), "reason": reason or "Succeeded", "message": f"about {name}"}
    metadata = {"name": name, "uid": f"{kind}-{inside}-{name}", "generation": 1, "resourceVersion": "1"}
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": kind,
        "metadata": {**metadata, "creationTimestamp": TIME, **({"namespace": inside} if inside else {})},
        "spec": spec,
        "status": {"observedGeneration": 1, "conditions": [{**ready, "lastTransitionTime": TIME}], **status},
    }


def cache_of(environments: int, *more: Any) -> Cache:
    """A Tenant with environments of ten objects each; later documents replace earlier ones."""
    cache = Cache(TYPES)
    bound = {"name": "tenant-acme", "uid": "n"}
    cache.absorb(document("Tenant", "acme", {}, "", namespace=bound))
    cache.absorb(document("Region", "here", {}, ""))
    for number in range(environments):
        name = f"env-{number}"
        cache.absorb(document("Environment", name, {"region": "here", "slug": name}))
        for child in range(EACH):
            cache.absorb(document("App", f"{name}.app{child}", {"environment": name, "app": f"app{child}", "version": "1.0.0"}))
    for each in more:
        each["metadata"]["resourceVersion"] = "2"
        cache.absorb(each)
    return cache


async def shown(cache: Cache, path: str = "tenants/Tenant--acme", rights: Rights = ROOT, **query: str) -> str:
    facade = SimpleNamespace(writers=(), archives=None, now=lambda: parse_time(TIME))
    context = SimpleNamespace(cache=cache, facade=facade)
    return (await Screens(cast(FacadeContext, context)).show(rights, path, query)).content


def links(page: str, kind: str) -> list[str]:
    """The objects of a kind in the order of the page."""
    return [link.rpartition("/")[2] for link in Parsed(page).links if f"/{kind}/" in link]


@pytest.mark.slow
async def test_a_tenant_with_many_objects_is_fast_and_draws_few() -> None:
    broken = [
        document(
            "App", f"env-{number}.app3", {"environment": f"env-{number}", "app": "app3", "version": "1.0.0"}, reason="Refused"
        )
        for number in (77, 312)
    ]
    cache = cache_of(500, *broken)
    await shown(cache, "regions")
    unit, began = unit_s(), time.thread_time()
    page = await shown(cache)
    assert time.thread_time() - began <= MOST_UNITS * unit
    tags = [dict(attributes).get("id") or "" for _, attributes in Parsed(page).tags]
    assert 100 < len([one for one in tags if one.startswith("node-")]) <= DRAWN
    assert len(Parsed(page).tags) <= 2_000
    first, second = list(dict.fromkeys(links(page, "environments")))[:2]
    assert {first, second} == {"Environment-tenant-acme-env-77", "Environment-tenant-acme-env-312"}
    assert "more environments" in page


@pytest.mark.slow
async def test_every_fault_is_drawn_up_to_the_limit_and_the_rest_is_counted() -> None:
    broken = [document("Environment", f"env-{number}", {"region": "here"}, reason="EngineFailed") for number in range(300)]
    page = await shown(cache_of(310, *broken))
    assert links(page, "environments")[0] == "Environment-tenant-acme-env-0"
    assert f"{310 - DRAWN} more environments, {300 - DRAWN} of them with a fault" in page


@pytest.mark.parametrize(
    ("rights", "named"), [(Rights(True), True), (Rights(False, "acme", "Tenant--acme", "tenant-acme"), False)]
)
async def test_the_cause_of_a_fault_is_named_and_linked_as_far_as_the_caller_sees_it(rights: Rights, named: bool) -> None:
    cache = cache_of(
        2,
        document("Region", "here", {"tenants": ["other"]}, "", reason="Unreachable"),
        document("Environment", "env-1", {"region": "here"}, reason="EngineStarting"),
        document("App", "env-1.app0", {"environment": "env-1", "app": "app0", "version": "1.0.0"}, reason="EngineNotRunning"),
    )
    cause = "Region--here" if named else "Environment-tenant-acme-env-1"
    for path in ("environments/Environment-tenant-acme-env-1", "apps/App-tenant-acme-env-1.app0"):
        page = await shown(cache, path, rights)
        found = page.partition('class="cause"')[2].partition("</p>")[0].partition("</div>")[0]
        assert (cause in found) == (named or path.startswith("apps")), found
    if named:
        assert "Region--here" in (await shown(cache)).partition('class="cause"')[2][:300]
    else:
        assert "Region--here" not in await shown(cache, "environments/Environment-tenant-acme-env-1", rights)


async def test_what_is_gone_and_made_again_is_no_part_of_the_old_tree() -> None:
    cache = cache_of(2)
    old = document("Environment", "env-1", {"region": "here"})
    cache.remove({**old, "metadata": {**old["metadata"], "resourceVersion": "3"}})
    page = await shown(cache)
    assert links(page, "environments") == ["Environment-tenant-acme-env-0"]
    assert "env-1" not in page


async def test_the_search_finds_names_slugs_and_ids_of_what_the_caller_sees() -> None:
    cache = cache_of(3, document("Environment", "theirs", {"region": "here", "slug": "env-9"}, "tenant-other"))
    assert set(links(await shown(cache, "search", q="env-2"), "environments")) == {"Environment-tenant-acme-env-2"}
    assert links(await shown(cache, "search", q="App-tenant-acme-env-1.app7"), "apps") == ["App-tenant-acme-env-1.app7"]
    assert "theirs" in await shown(cache, "search", q="env-9")
    tenant = Rights(False, "acme", "Tenant--acme", "tenant-acme")
    assert "theirs" not in await shown(cache, "search", tenant, q="env-9")
    assert "Nothing matches" in await shown(cache, "search", q="<script>")
    assert links(await shown(cache, "search"), "environments") == []
