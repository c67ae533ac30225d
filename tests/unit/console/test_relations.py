"""The page of an object shows what it needs and what needs it, with the health of each, as far as the viewer sees it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenantry.api.facade_context import FacadeContext
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.model.resource import parse_time
from tenantry.runtime.cache import Cache
from tests.scenario.console.console_world import Parsed

TIME = "2026-11-23T08:00:00Z"
ROOT, ACME = Rights(True), Rights(False, "acme", "t", "tenant-acme")
NEEDS, NEEDED_BY = "What it needs", "What needs it"


def document(kind: str, namespace: str, name: str, reason: str = "", **spec: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": str(not reason), "reason": reason or "Succeeded", "message": f"about {name}"}
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, "uid": f"{kind}-{namespace}-{name}", "generation": 1, "resourceVersion": "1", **where}
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": kind,
        "metadata": {**metadata, "creationTimestamp": TIME},
        "spec": spec,
        "status": {"observedGeneration": 1, "conditions": [{**ready, "lastTransitionTime": TIME}]},
    }


def crm(kind: str, namespace: str, name: str, version: str = "1.0.0", **spec: str) -> dict[str, Any]:
    return document(kind, namespace, name, app="crm", version=version, **spec)


HELD = (
    document("Region", "", "here"),
    document("Region", "", "there", tenants=["globex"]),
    document("Environment", "tenant-acme", "dev", region="here"),
    document("Environment", "tenant-acme", "lost", "EngineFailed", region="here"),
    document("Environment", "tenant-globex", "theirs", region="here"),
    document("Environment", "tenant-globex", "far", region="there"),
    crm("Package", "tenant-acme", "own"),
    crm("Package", "tenant-acme", "newer", "1.1.0"),
    crm("Package", "tenant-globex", "foreign"),
    crm("Package", "tenantry-system", "shared"),
    crm("App", "tenant-acme", "dev.crm", environment="dev"),
    crm("App", "tenant-globex", "far.crm", environment="far"),
)


async def related(rights: Rights, path: str, title: str) -> list[str]:
    """The uids of the objects under a heading of a page, in its order."""
    cache = Cache(TYPES)
    for each in HELD:
        cache.absorb(each)
    facade = SimpleNamespace(writers=(), archives=None, now=lambda: parse_time(TIME))
    screens = Screens(cast(FacadeContext, SimpleNamespace(cache=cache, facade=facade)))
    section = (await screens.show(rights, path, {})).content.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]
    return [link.rpartition("/")[2] for link in Parsed(section).links]


@pytest.mark.parametrize(
    ("path", "title", "found"),
    [
        ("environments/Environment-tenant-acme-dev", NEEDS, ["Region--here"]),
        ("environments/Environment-tenant-acme-dev", NEEDED_BY, []),
        ("regions/Region--there", NEEDED_BY, ["Environment-tenant-globex-far"]),
        ("apps/App-tenant-acme-dev.crm", NEEDS, ["Package-tenant-acme-own", "Package-tenantry-system-shared"]),
        ("packages/Package-tenant-acme-own", NEEDED_BY, ["App-tenant-acme-dev.crm"]),
        ("packages/Package-tenant-acme-newer", NEEDED_BY, []),
        ("packages/Package-tenantry-system-shared", NEEDED_BY, ["App-tenant-acme-dev.crm", "App-tenant-globex-far.crm"]),
    ],
)
async def test_a_page_links_what_its_object_needs_and_what_needs_it(path: str, title: str, found: list[str]) -> None:
    assert sorted(await related(ROOT, path, title)) == found


async def test_what_has_a_fault_comes_first() -> None:
    shown = await related(ROOT, "regions/Region--here", NEEDED_BY)
    assert shown[0] == "Environment-tenant-acme-lost"
    assert len(shown) == 3


async def test_a_tenant_s_person_sees_only_what_is_the_tenant_s() -> None:
    assert await related(ACME, "regions/Region--here", NEEDED_BY) == [
        "Environment-tenant-acme-lost",
        "Environment-tenant-acme-dev",
    ]
    assert await related(ACME, "apps/App-tenant-acme-dev.crm", NEEDS) == ["Package-tenant-acme-own"]
