"""The reach of an edit: a plan runs passes over the objects that the edit can wake, and over no others."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import CREDENTIAL_LABEL, Document, Ref, Resource
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.planning.reach import reach_of
from tests.unit.kinds.factories import bound_tenant, made, package, region, running_environment, user

TENANTS = ("acme", "beta", "late")


def document(resource: Resource[Any, Any], version: int = 1) -> Document:
    body = {"apiVersion": "tenantry.dev/v1alpha1", "kind": resource.KIND, **resource.to_json()}
    return body | {"metadata": body["metadata"] | {"resourceVersion": str(version)}}


def of(tenant: str, name: str = "dev", slug: str = "", **spec: Any) -> Environment:
    """A Ready environment of a tenant, at the host of its slugs."""
    slug = slug or name
    status = {"phase": "READY", "slug": slug, "tenantSlug": tenant, "url": f"http://here/e/{tenant}/{slug}"}
    return made(Environment, name, f"tenant-{tenant}", spec={"region": "eu", "slug": slug} | spec, status=status, ready=True)


def secret(namespace: str, purpose: str) -> Document:
    metadata = {
        "name": "s",
        "namespace": namespace,
        "uid": "uid-s",
        "resourceVersion": "9",
        "labels": {CREDENTIAL_LABEL: purpose},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}}


@pytest.fixture
def cache() -> Cache:
    cache = Cache(TYPES)
    for each in (region(), user(), package(namespace="tenantry-system")):
        cache.absorb(document(each))
    for name in TENANTS:
        cache.absorb(document(bound_tenant(name)))
        cache.absorb(document(of(name)))
    return cache


def edit(cache: Cache, made: Document) -> list[Seen]:
    """The changes of the cache when that is written."""
    seen: list[Seen] = []
    stop = cache.listen(seen.append)
    cache.absorb(made)
    stop()
    return seen


def reached(cache: Cache, *edits: Document, namespaces: tuple[str, ...] = ()) -> set[str]:
    """The tenants that the edits reach, and `users`. Whatever is the platform's is reached always."""
    covers, within = reach_of(cache, [seen for each in edits for seen in edit(cache, each)], namespaces)
    assert covers(Ref("Region", "", "eu"))
    assert covers(Ref("Package", "tenantry-system", "crm-1-0-0"))
    found = {name for name in TENANTS if covers(Ref("Environment", f"tenant-{name}", "dev"))}
    assert found == {name for name in TENANTS if covers(Ref("Tenant", "", name))}
    assert within == (None if covers(Ref("Package", "tenant-unknown", "x")) else {f"tenant-{name}" for name in found})
    return found | ({"users"} if covers(Ref("User", "tenantry-system", "root")) else set())


EVERYTHING = {*TENANTS, "users"}
EDITS: dict[str, tuple[Document, set[str]]] = {
    "an environment reaches its tenant": (document(of("acme", suspend=True), 9), {"acme"}),
    "a Secret of a tenant reaches that tenant": (secret("tenant-beta", "identity"), {"beta"}),
    "an environment reaches who holds the id that it declares": (
        document(of("acme", "new", id=of("beta").id), 9),
        {"acme", "beta"},
    ),
    "a tenant reaches itself and users": (document(bound_tenant("acme", spec={"displayName": "New"}), 9), {"acme", "users"}),
    "a tenant reaches who has the slug that it wants": (
        document(bound_tenant("acme", spec={"slug": "beta"}), 9),
        {"acme", "beta", "users"},
    ),
    "a user reaches users": (document(user(spec={"username": "vera", "role": "VIEWER"}), 9), {"users"}),
    "a user's Secret reaches users": (secret("tenantry-system", "user"), {"users"}),
    "another Secret of the platform may reach everything": (secret("tenantry-system", "source"), EVERYTHING),
    "a region reaches everything": (document(region(spec={"displayName": "Europe"}), 9), EVERYTHING),
    "a shared package reaches everything": (document(package("2.0.0", "tenantry-system"), 9), EVERYTHING),
}


@pytest.mark.parametrize(("edited", "expected"), EDITS.values(), ids=EDITS)
def test_an_edit_reaches(cache: Cache, edited: Document, expected: set[str]) -> None:
    assert reached(cache, edited) == expected


def test_a_deletion_reaches_what_the_object_was_part_of(cache: Cache) -> None:
    seen: list[Seen] = []
    cache.listen(seen.append)
    cache.remove(document(of("acme"), 9))
    covers, _ = reach_of(cache, seen)
    assert [name for name in TENANTS if covers(Ref("Tenant", "", name))] == ["acme"]


def test_an_environment_reaches_who_holds_its_host(cache: Cache) -> None:
    holder = running_environment().model_copy()
    cache.absorb(document(made(Environment, "mine", "tenant-beta", spec={"region": "eu"}, status=holder.status.to_json()), 8))
    assert reached(cache, document(of("acme", suspend=True), 9)) == {"acme", "beta"}


def test_what_an_edit_leaves_out_for_now_is_reached_as_well(cache: Cache) -> None:
    assert reached(cache, document(of("acme", suspend=True), 9), namespaces=("tenant-late",)) == {"acme", "late"}


def test_two_edits_reach_what_each_of_them_does(cache: Cache) -> None:
    assert reached(cache, document(of("acme", suspend=True), 8), document(of("beta", suspend=True), 9)) == {"acme", "beta"}


def test_no_edit_reaches_no_tenant(cache: Cache) -> None:
    assert reached(cache) == set()
