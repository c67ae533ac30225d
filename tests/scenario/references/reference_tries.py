"""Tries of what people, engines and namespaces are named by."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tests.cluster.running import until
from tests.scenario.hosts import condition, object_
from tests.scenario.references.reference_story import HERE, NAMESPACE, PASSWORD, READY_S, SLUG, Story
from tests.security.forging import token_of


def nothing(story: Story) -> None:
    """The story itself made it."""


def cannot_sign_in(story: Story) -> None:
    form = {"username": "isolde", "password": PASSWORD}
    assert httpx.post(f"{story.host.url}/api/v1/auth/token", data=form).status_code == 401
    assert "isolde" not in {each["name"] for each in story.host.rest("GET", "/users").json()}


def token_is_refused(story: Story) -> None:
    assert story.host.rest("GET", "/auth/me", story.tokens[0]).status_code == 401


def makes_identity(story: Story) -> None:
    made = story.engine("POST", "/identities", json={"username": "ann", "password": PASSWORD})
    assert made.status_code in (200, 201), made.text


def has_no_identity(story: Story, _: Any) -> None:
    usernames = {each["username"] for each in story.engine("GET", "/identities").json()["data"]}
    assert "admin" in usernames <= {"admin", "bob", "turned"}, "those of the second customer"
    assert story.host.rest("GET", f"/environments/{story.environments[0]}").status_code == 404


def keeps_secret(story: Story) -> None:
    labels = {"tenantry.dev/credential": "identity"}
    metadata = {"name": "wifi", "namespace": NAMESPACE, "labels": labels}
    story.host.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": PASSWORD}})


def has_no_secret(story: Story, _: Any) -> None:
    spec = {"environment": "dev", "username": "bob", "passwordSecretRef": {"name": "wifi"}}
    story.host.apply(object_("Identity", NAMESPACE, "bob", **spec))
    story.ends_as("identities", NAMESPACE, "bob", "SecretNotFound", "SecretMissing")


def _adopted(story: Story) -> str:
    """A Tenant with a namespace that a person made; its uid once it is there."""
    metadata = {"name": "ado-space", "labels": {"tenantry.dev/tenant": "ado"}}
    story.host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    tenant = object_("Tenant", "", "ado")
    story.host.apply({**tenant, "spec": {"namespace": "ado-space"}})
    return str(story.host.get("tenants", "", "ado")["metadata"]["uid"])


def adopts(story: Story) -> str:
    uid = _adopted(story)
    until(lambda: condition(story.host.get("tenants", "", "ado"), "Ready")[0] == "True", "adopted", READY_S)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "left", "namespace": "ado-space"}}
    story.host.apply({**secret, "stringData": {"password": PASSWORD}})
    story.host("delete", "tenant/ado")
    until(lambda: "ado" not in {each["metadata"]["name"] for each in story.host.objects("tenants")}, "deleted", READY_S)
    return uid


def does_not_inherit(story: Story, first: str) -> None:
    assert _adopted(story) != first
    assert "Secret/ado-space/left" in story.ends_as("tenants", "", "ado", "NamespaceNotEmpty")
    assert story.host.get("tenants", "", "ado")["status"].get("namespace") is None


def may_use_region(story: Story) -> None:
    assert "closed" in {each["id"] for each in story.rest("GET", "/regions").json()}


def may_not_use_region(story: Story, _: Any) -> None:
    assert "closed" not in {each["id"] for each in story.rest("GET", "/regions").json()}
    refused = story.rest("POST", "/environments", json={**HERE, "slug": "closed", "region": "closed"})
    assert (refused.status_code, refused.json()["error"]) == (400, "region: no such region")
    assert "closed" not in {each["slug"] for each in story.rest("GET", "/environments").json()}


def sees_own_operations(story: Story, _: Any) -> None:
    assert {each["tenantId"] for each in story.rest("GET", "/operations").json()} == {story.tenant}
    assert story.rest("GET", f"/operations?tenantId={story.tenants[0]}").json() == []
    first = story.host.rest("GET", f"/operations?tenantId={story.tenants[0]}").json()
    assert {"CREATE_TENANT", "DELETE_TENANT"} <= {each["actionType"] for each in first}


def sees_version(story: Story) -> str:
    made = story.engine("POST", "/identities", json={"username": "eve", "password": PASSWORD})
    assert made.status_code in (200, 201), made.text
    edited = story.host.rest("PUT", f"/tenants/{story.tenant}", json={"name": "Isolation"})
    return str(edited.headers["Tenantry-Version"])


def is_only_a_version(story: Story, version: str) -> None:
    listed = story.rest("GET", "/environments", headers={"Tenantry-Version": version}).json()
    assert story.environments[1] in {each["id"] for each in listed}
    assert {each["tenantId"] for each in listed} == {story.tenant}


def plans(story: Story) -> str:
    planned = story.rest("POST", "/environments?dryRun=true", json={**HERE, "slug": "planned"})
    assert planned.status_code == 200, planned.text
    return str(planned.json()["digest"])


def plan_has_moved(story: Story, digest: str) -> None:
    wanted = {**HERE, "slug": "planned"}
    assert story.rest("POST", "/environments?dryRun=true", json=wanted).json()["digest"] != digest
    assert story.rest("POST", "/environments", json=wanted, headers={"If-Plan": digest}).status_code == 412


def is_not_restored(story: Story, _: Any) -> None:
    gone = story.host.cli("restore", story.environments[0])
    assert gone.returncode != 0, gone.stdout
    assert story.environments[0] not in {each["id"] for each in story.host.rest("GET", "/environments").json()}


def retains_engine(story: Story) -> str:
    """An environment whose engine is kept when it goes; its id."""
    story.declare("Environment", "kept", region="here", deletionPolicy="Retain")
    id_ = str(story.ready("environments", "kept")["metadata"]["uid"])
    path = f"{story.host.url}/engines/{id_}/api/v1/admin/identities"
    headers = {"Authorization": f"Bearer {story.tokens[-1]}"}
    made = httpx.post(path, headers=headers, json={"username": "keeper", "password": PASSWORD}, timeout=120)
    assert made.status_code in (200, 201), made.text
    return id_


def engine_is_not_taken_up(story: Story, id_: str) -> None:
    """An engine on this machine refuses; on a cluster the id gets a new volume."""
    story.declare("Environment", "kept", region="here", id=id_)

    def looked() -> bool:
        ready, reason, _ = condition(story.host.get("environments", NAMESPACE, "kept"), "Ready")
        return ready == "True" or reason == "EngineTaken"

    until(looked, "refused, or made anew", READY_S)
    path = f"{story.host.url}/engines/{id_}/api/v1/admin/identities"
    seen = httpx.get(path, headers={"Authorization": f"Bearer {story.tokens[-1]}"}, timeout=120)
    assert "keeper" not in seen.text
    story.remove("environments", "kept")


def is_another_tenant(story: Story, _: Any) -> None:
    assert story.tenants[0] != story.tenants[1], "the second POST had the key of the first"


def is_trusted(story: Story) -> str:
    """A token of the issuer, which lives longer than the first tenant."""
    token = _token_for(story, story.tenant)
    me = story.host.rest("GET", "/auth/me", token)
    assert (me.status_code, me.json()["tenantId"]) == (200, story.tenant)
    return token


def is_not_trusted(story: Story, token: str) -> None:
    assert story.host.rest("GET", "/auth/me", token).status_code == 401
    assert story.host.rest("GET", "/auth/me", _token_for(story, SLUG)).status_code == 401
    assert story.host.rest("GET", "/auth/me", _token_for(story, story.tenant)).status_code == 200


def _token_for(story: Story, tenant: str) -> str:
    return token_of(story.outside, role="ADMIN", tenantId=tenant, exp=int(time.time()) + 3600)


def turns_password(story: Story) -> None:
    """A Secret that was deleted and made again is the Identity's password; until then the one before counts."""
    story.secret("turned", "identity", PASSWORD)
    story.declare("Identity", "turned", environment="dev", username="turned", passwordSecretRef={"name": "turned"})
    before = story.ready("identities", "turned")["status"]
    story.remove("secret", "turned")
    story.comes_to("identities", "turned", "SecretNotFound")
    story.secret("turned", "identity", f"another {PASSWORD}")
    after = story.ready("identities", "turned")["status"]
    assert after["id"] == before["id"]
    assert after["credential"] not in (None, before["credential"])
