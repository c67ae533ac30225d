"""The Store on a real API server, beyond its contract: callers by impersonation, and metadata of others."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.http import APPLY_PATCH, Client
from tenantry.adapters.kubernetes.store import CALLER_EXTRA, KubernetesStore
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, held_of, ref_of
from tenantry.model.verdicts import Conflict, Forbidden, NotFound
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ROLES = {"tenantry-admin": ["get", "create", "patch", "delete"], "tenantry-viewer": ["get"]}


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with client_of(cluster) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    """A tenant's, with its two accounts and their rights."""
    name = f"s-{uuid.uuid4().hex[:10]}"
    await KubernetesStore(client).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for account, verbs in ROLES.items():
        rule = {"apiGroups": ["tenantry.dev"], "resources": ["environments"], "verbs": verbs}
        await rbac(client, name, "roles", {"kind": "Role", "metadata": {"name": account}, "rules": [rule]})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": name}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
        binding = {"kind": "RoleBinding", "metadata": {"name": account}, "subjects": [subject], "roleRef": role}
        await rbac(client, name, "rolebindings", binding)
    return name


async def rbac(client: Client, namespace: str, plural: str, document: dict[str, Any]) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{plural}"
    await client.request("POST", path, body={"apiVersion": "rbac.authorization.k8s.io/v1", **document})


def environment(namespace: str, name: str = "dev", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"region": "home"},
    }


def bound_to(namespace: str) -> Any:
    async def namespace_of(tenant: str) -> str:
        return namespace

    return namespace_of


ADMIN = Caller("1", "ann@example.com", "ADMIN", "acme")
VIEWER = Caller("2", "vic", "VIEWER", "acme")


async def authorized(store: Any, document: Document) -> Document:
    """Rights are in force a moment after they are given."""
    stored: list[Document] = []

    async def tried() -> bool:
        try:
            stored.append(await store.create(document))
        except Forbidden:
            return False
        return True

    await until(tried, "the role is not in force")
    return stored[0]


async def test_an_admin_writes_in_its_own_namespace_alone(client: Client, namespace: str) -> None:
    store = KubernetesStore(client, bound_to(namespace)).as_(ADMIN)
    created = await authorized(store, environment(namespace))
    assert await store.get(ref_of(created)) == created
    with pytest.raises(Forbidden):
        await store.create(environment("default"))
    with pytest.raises(Forbidden):
        await store.set_status(held_of(created), {"observedGeneration": 1})


async def test_a_viewer_reads_and_writes_nothing(client: Client, namespace: str) -> None:
    own = KubernetesStore(client, bound_to(namespace))
    created = await authorized(own.as_(ADMIN), environment(namespace))
    assert await own.as_(VIEWER).get(ref_of(created)) == created
    for write in (own.as_(VIEWER).create(environment(namespace, "other")), own.as_(VIEWER).delete(held_of(created))):
        with pytest.raises(Forbidden):
            await write


async def test_a_caller_of_the_platform_keeps_the_platforms_rights(client: Client, namespace: str) -> None:
    store = KubernetesStore(client).as_(Caller("3", "root", "SUPERUSER"))
    assert (await store.create(environment(namespace)))["metadata"]["uid"]


async def test_a_caller_without_a_tenant_is_nobody(client: Client, namespace: str) -> None:
    with pytest.raises(Forbidden):
        await KubernetesStore(client).as_(Caller("4", "eve", "ADMIN")).create(environment(namespace))


async def test_a_tenants_namespace_is_that_of_its_status(client: Client, namespace: str) -> None:
    own, name = KubernetesStore(client), f"t{uuid.uuid4().hex[:8]}"
    caller = Caller("5", "ann", "ADMIN", name)
    with pytest.raises(Forbidden, match="does not exist"):
        await own.as_(caller).create(environment(namespace))
    tenant = await own.create({"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}})
    with pytest.raises(Forbidden, match="no namespace"):
        await own.as_(caller).create(environment(namespace))
    status = {"observedGeneration": 1, "namespace": {"name": namespace, "uid": "1"}}
    await own.set_status(held_of(tenant), status)
    await authorized(own.as_(caller), environment(namespace))


async def test_the_callers_name_stands_in_the_audit_log(cluster: Cluster, client: Client, namespace: str) -> None:
    if cluster.audit is None:
        pytest.skip("the audit log of a given cluster is not ours to read")
    caller = Caller("6", "jürgen\n", "ADMIN", "acme")
    await authorized(KubernetesStore(client, bound_to(namespace)).as_(caller), environment(namespace))
    account = f"system:serviceaccount:{namespace}:tenantry-admin"

    async def found() -> bool:
        return ["j%C3%BCrgen%0A"] in impersonations(cluster.audit, account)

    await until(found, "the audit log does not name the caller")


def impersonations(log: Path | None, account: str) -> list[Any]:
    assert log is not None
    entries = [json.loads(line).get("impersonatedUser") or {} for line in log.read_text().splitlines()]
    return [each.get("extra", {}).get(CALLER_EXTRA) for each in entries if each.get("username") == account]


async def test_what_others_keep_in_metadata_stays(client: Client, namespace: str) -> None:
    store = KubernetesStore(client)
    created = await store.create(environment(namespace, finalizers=["example.com/theirs"]))
    applied = {
        **environment(namespace, labels={"theirs": "1"}, annotations={"example.com/theirs": "1"}),
        "spec": {"region": "home", "displayName": "Theirs"},
    }
    path = f"/apis/tenantry.dev/v1alpha1/namespaces/{namespace}/environments/dev"
    query = {"fieldManager": "theirs", "force": "true"}
    theirs = await client.request("PATCH", path, query=query, body=applied, content_type=APPLY_PATCH)
    with pytest.raises(Conflict):
        await store.replace({**created, "spec": {"region": "away"}}, created["metadata"]["resourceVersion"])

    seen = await store.set_status(held_of(theirs), {"observedGeneration": 2, "phase": "READY"})

    assert seen["metadata"]["labels"] == {"theirs": "1"}
    assert seen["metadata"]["annotations"] == {"example.com/theirs": "1"}
    assert seen["metadata"]["finalizers"] == ["example.com/theirs"]
    assert seen["spec"]["displayName"] == "Theirs"
    managers = {each["manager"] for each in (await client.request("GET", path))["metadata"]["managedFields"]}
    assert managers == {"tenantry", "theirs"}
    await store.set_finalizers(held_of(seen), ())


async def test_a_namespace_is_emptied_and_goes(cluster: Cluster, client: Client, namespace: str) -> None:
    if not cluster.controllers:
        pytest.skip("there is no kube-controller-manager to empty a namespace")
    store = KubernetesStore(client)
    await store.create(environment(namespace))
    document = await client.request("GET", f"/api/v1/namespaces/{namespace}")

    marked = await store.delete(held_of({**document, "kind": "Namespace"}))
    assert marked["metadata"]["deletionTimestamp"] and marked["spec"]["finalizers"] == ["kubernetes"]
    with pytest.raises(Forbidden):
        await store.create(environment(namespace, "late"))

    async def gone() -> bool:
        try:
            await store.get(ref_of(marked))
        except NotFound:
            return True
        return False

    await until(gone, "the namespace is still there")


async def test_of_two_deletes_at_once_both_see_it_gone_or_absent(client: Client, namespace: str) -> None:
    store = KubernetesStore(client)
    created = await store.create(environment(namespace))
    answers = await asyncio.gather(*(store.delete(held_of(created)) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(answer, NotFound | Conflict) or answer == created for answer in answers)
    with pytest.raises(NotFound):
        await store.get(ref_of(created))


async def test_a_dry_run_refuses_what_its_caller_may_not_and_stores_nothing(client: Client, namespace: str) -> None:
    store = KubernetesStore(client, bound_to(namespace))
    stored = await authorized(store.as_(ADMIN), environment(namespace))
    edited = {**stored, "spec": {**stored["spec"], "displayName": "Dev"}}
    version, other = held_of(stored).version, environment(namespace, "qa")
    for caller, refused in ((ADMIN, False), (VIEWER, True)):
        dry = store.as_(caller).dry_run()
        for write in (dry.create(other), dry.replace(edited, version), dry.delete(held_of(stored))):
            if refused:
                with pytest.raises(Forbidden):
                    await write
            else:
                await write
    assert await store.get(ref_of(stored)) == stored
    with pytest.raises(NotFound):
        await store.get(ref_of(other))
