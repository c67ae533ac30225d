"""Prepared bodies: kept while nothing that they tell changes, and never older than the cache."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tenantry.api.auth.tenant_lookup import Owners
from tenantry.api.reading.body_cache import BodyCache, Scope
from tenantry.api.reading.rendering import Renderer
from tenantry.model.resource import SYSTEM_NAMESPACE
from tests.support.cached_objects import Objects


@pytest.fixture
def objects() -> Objects:
    objects = Objects()
    objects.put("Region", "here", {"displayName": "Here"})
    objects.tenant("acme")
    for name in ("a", "bb", "ccc"):
        objects.put("Environment", name, {"region": "here"}, "tenant-acme")
    return objects


@pytest.fixture
def fragments(objects: Objects) -> BodyCache:
    renderer = Renderer(objects.cache, lambda region, tenant, slug: f"http://{slug}.{tenant}", "Local")
    return BodyCache(objects.cache, "Environment", renderer.environment, renderer.environments_affected)


def bodies(fragments: BodyCache, scope: Scope | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(fragments.listing(scope or Scope()).whole)
    return found


def test_a_list_is_ordered_by_creation(fragments: BodyCache) -> None:
    assert [one["name"] for one in bodies(fragments)] == ["a", "bb", "ccc"]
    assert bodies(fragments, Scope("tenant-other")) == []


def test_a_list_is_the_same_bytes_until_something_in_it_changes(objects: Objects, fragments: BodyCache) -> None:
    before = fragments.listing(Scope())
    objects.put("Region", "elsewhere", {})
    objects.tenant("globex")
    assert fragments.listing(Scope()) is before
    objects.put("Environment", "bb", {"region": "here", "displayName": "B"}, "tenant-acme")
    assert [one["name"] for one in bodies(fragments)] == ["a", "B", "ccc"]
    assert fragments.listing(Scope()).etag != before.etag


def test_a_changed_region_changes_the_bodies_that_tell_of_it(objects: Objects, fragments: BodyCache) -> None:
    assert bodies(fragments)[0]["regionInfo"]["name"] == "Here"
    objects.put("Region", "here", {"displayName": "There"})
    assert [one["regionInfo"]["name"] for one in bodies(fragments)] == ["There"] * 3
    before = fragments.listing(Scope())
    objects.put("Region", "here", {"displayName": "There"}, status={"environments": 3})
    assert fragments.listing(Scope()) is before, "its count of environments is not told"


def test_a_changed_tenant_changes_the_bodies_that_tell_of_it(objects: Objects, fragments: BodyCache) -> None:
    assert bodies(fragments)[0]["tenant"]["name"] == "acme"
    objects.tenant("acme", displayName="ACME")
    assert [one["tenant"]["name"] for one in bodies(fragments)] == ["ACME"] * 3


def test_what_lost_its_slug_is_not_listed(objects: Objects, fragments: BodyCache) -> None:
    conditions = [{"type": "Stalled", "status": "True", "reason": "SlugTaken"}]
    objects.put("Environment", "dddd", {"region": "here", "slug": "a"}, "tenant-acme", status={"conditions": conditions})
    assert [one["slug"] for one in bodies(fragments)] == ["a", "bb", "ccc"]


def test_a_declared_id_is_the_oldest_claimants_and_never_somebody_elses_uid(objects: Objects, fragments: BodyCache) -> None:
    mine = next(one for one in objects.cache.resources("Environment") if one.metadata.name == "a")
    claimed = "11111111-0000-4000-8000-000000000000"
    objects.put("Environment", "thief", {"region": "here", "id": mine.metadata.uid}, "tenant-globex")
    objects.put("Environment", "first", {"region": "here", "id": claimed}, "tenant-acme")
    objects.put("Environment", "second", {"region": "here", "id": claimed}, "tenant-globex")
    owners = Owners(objects.cache)
    ids = {one.metadata.name: (owners.id_of(one), one.metadata.uid) for one in objects.cache.resources("Environment")}
    assert ids["a"][0] == mine.metadata.uid
    assert ids["thief"][0] == ids["thief"][1]
    assert ids["first"][0] == claimed
    assert ids["second"][0] == ids["second"][1]
    row = fragments.find(mine.metadata.uid)
    assert row is not None
    assert row.name == ("tenant-acme", "a")
    stolen = fragments.find(ids["thief"][1])
    assert stolen is not None
    assert stolen.name == ("tenant-globex", "thief")


def test_an_operation_stays_its_tenants_when_another_has_the_name(objects: Objects) -> None:
    renderer = Renderer(objects.cache, lambda *_: "", "Local")
    operations = BodyCache(objects.cache, "Operation", renderer.operation, newest_first=True)
    target = {"kind": "Tenant", "name": "acme", "uid": "u"}
    for name, uid in (("op-new", "second"), ("op-old", "first")):
        spec = {"action": "CREATE_TENANT", "target": target, "cause": "1", "tenant": "acme", "tenantUid": uid, "tenantId": uid}
        objects.put("Operation", name, spec, SYSTEM_NAMESPACE, status={})
    objects.put("Tenant", "acme", {}, metadata={"uid": "second"})
    assert {one["id"]: one["tenantId"] for one in bodies(operations)} == {"op-new": "second", "op-old": "first"}
    assert [one["id"] for one in bodies(operations, Scope(SYSTEM_NAMESPACE, "tenant=second"))] == ["op-new"]
    assert [row.id for row in operations.filtered(Scope(), ["tenantId=first", "actionType=CREATE_TENANT"], bool).rows] == [
        "op-old"
    ]
    assert operations.filtered(Scope(SYSTEM_NAMESPACE, "tenant=second"), ["tenantId=first"], bool).rows == []
