"""A Tenant is deleted, and another customer gets its name: nobody of the first comes into the second. The same on every host."""

from __future__ import annotations

import httpx
import pytest

from tests.cluster.releases import helm, kubectl, own, release
from tests.cluster.running import until
from tests.scenario.either_host import host
from tests.scenario.hosts import Host, Object, condition, object_

__all__ = ["helm", "host", "kubectl", "own", "release"]
pytestmark = pytest.mark.slow
PASSWORD = "a long password"
WAITS = {"Prefer": "wait=60"}
READY_S = 60.0


def made(host: Host, slug: str, name: str) -> str:
    """A new tenant; its id."""
    answer = host.rest("POST", "/tenants", json={"name": name, "slug": slug})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def deleted(host: Host, tenant: str) -> None:
    assert host.rest("DELETE", f"/tenants/{tenant}", headers=WAITS).status_code == 202
    until(lambda: tenant not in {each["id"] for each in host.rest("GET", "/tenants").json()}, "deleted", READY_S)


def admin(host: Host, username: str, tenant: str) -> httpx.Response:
    body = {"username": username, "password": PASSWORD, "type": "ADMIN", "tenantId": tenant}
    return host.rest("POST", "/users", json=body)


def signs_in(host: Host, username: str) -> int:
    form = {"username": username, "password": PASSWORD}
    return httpx.post(f"{host.url}/api/v1/auth/token", data=form).status_code


def tenant_of(host: Host, token: str) -> str:
    """The tenant that a token acts in, or the code of its refusal."""
    answer = host.rest("GET", "/auth/me", token)
    return str(answer.json()["tenantId"]) if answer.status_code == 200 else str(answer.status_code)


def declaration(username: str, tenant: str, **spec: str) -> tuple[Object, Object]:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": username, "namespace": "tenantry-system", "labels": {"tenantry.dev/credential": "user"}},
        "stringData": {"password": PASSWORD},
    }
    wanted = {"username": username, "role": "ADMIN", "tenant": tenant, "passwordSecretRef": {"name": username}, **spec}
    return secret, object_("User", "tenantry-system", username, **wanted)


def ends_as(host: Host, username: str, type_: str, reason: str) -> Object:
    """The User, once a condition of its present generation says so."""
    found: list[Object] = []

    def looked() -> bool:
        found[:] = [host.get("users", "tenantry-system", username)]
        return condition(found[0], type_)[:2] == ("True", reason)

    until(looked, f"{username} {type_} {reason}", READY_S, lambda: str(found[0].get("status")))
    return found[0]


def test_a_user_that_rest_made_goes_with_its_tenant(host: Host) -> None:
    first = made(host, "iso", "First")
    assert admin(host, "isolde", first).status_code == 201
    token = host.signed_in("isolde", PASSWORD)
    assert tenant_of(host, token) == first
    deleted(host, first)
    assert (signs_in(host, "isolde"), tenant_of(host, token)) == (401, "401")
    second = made(host, "iso", "Second")
    assert second != first
    assert (signs_in(host, "isolde"), tenant_of(host, token)) == (401, "401")
    assert "isolde" not in {each["name"] for each in host.rest("GET", "/users").json()}
    assert not [each for each in host.objects("users") if condition(each, "Ready")[0] != "True"]
    assert admin(host, "Isolde", second).status_code == 201, "the username is free again"
    assert tenant_of(host, host.signed_in("isolde", PASSWORD)) == second
    assert tenant_of(host, token) == "401"


def test_a_user_that_is_declared_stays_and_is_let_in_by_an_edit_of_its_declaration(host: Host) -> None:
    first = made(host, "duo", "First")
    host.apply(*declaration("tristan", "duo"))
    ends_as(host, "tristan", "Ready", "Succeeded")
    token = host.signed_in("tristan", PASSWORD)
    assert tenant_of(host, token) == first
    deleted(host, first)
    assert (signs_in(host, "tristan"), tenant_of(host, token)) == (401, "401")
    second = made(host, "duo", "Second")
    ends_as(host, "tristan", "Stalled", "TenantReplaced")
    assert (signs_in(host, "tristan"), tenant_of(host, token)) == (401, "401")
    host.apply(*declaration("tristan", "duo"))
    stalled = ends_as(host, "tristan", "Stalled", "TenantReplaced")
    assert (stalled["metadata"]["generation"], signs_in(host, "tristan")) == (1, 401), "the same file is no edit"
    host.apply(*declaration("tristan", "duo", displayName="Tristan of the second"))
    ends_as(host, "tristan", "Ready", "Succeeded")
    assert tenant_of(host, host.signed_in("tristan", PASSWORD)) == second
    assert tenant_of(host, token) == "401", "a token from before stays ended"


def test_a_user_of_a_replaced_tenant_is_moved_over_rest(host: Host) -> None:
    first = made(host, "trio", "First")
    host.apply(*declaration("marke", "trio"))
    ends_as(host, "marke", "Ready", "Succeeded")
    deleted(host, first)
    second = made(host, "trio", "Second")
    ends_as(host, "marke", "Stalled", "TenantReplaced")
    (user,) = (each for each in host.rest("GET", "/users").json() if each["name"] == "marke")
    assert user["tenantId"] == ""
    assert host.rest("PUT", f"/users/{user['id']}", json={"password": PASSWORD}).status_code == 400
    moved = host.rest("PUT", f"/users/{user['id']}", json={"tenantId": second})
    assert (moved.status_code, moved.json()["tenantId"]) == (200, second)
    ends_as(host, "marke", "Ready", "Succeeded")
    assert tenant_of(host, host.signed_in("marke", PASSWORD)) == second
