"""The objects that open a tenant's namespace stay as they were made, on a real API server with the operator's rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.kubernetes.tenancy.guard import Granted, TenancyGuard
from tenantry.adapters.kubernetes.tenancy.namespaces import KubernetesTenancy
from tenantry.model.facts import RegionFacts, TenantAccess
from tenantry.model.resource import ACCESS_MARK
from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of, until
from tests.cluster.releases import OPERATOR

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
RBAC = "rbac.authorization.k8s.io/v1"
ACCESS = TenantAccess(admins=("green-admins",))
REGIONS = (RegionFacts("eu", "Europe"),)
TENANT, PLACE = "green", "tenant-green"


@pytest.fixture
async def admin(own: Cluster, release: str) -> AsyncIterator[Client]:
    async with client_of(own) as client:
        yield client


@pytest.fixture
async def tenancy(admin: Client) -> AsyncIterator[KubernetesTenancy]:
    """Guarded, with what is marked as given once it has been."""
    operator = admin.with_headers({"Impersonate-User": OPERATOR})
    store = KubernetesStore(operator)
    tenancy = KubernetesTenancy(store, operator, NAMESPACE)
    await tenancy.ensure(PLACE, TENANT, "u1", ACCESS)
    await tenancy.publish(PLACE, TENANT, REGIONS)
    granted = Granted(TENANT, ACCESS, REGIONS)
    guard = asyncio.create_task(
        TenancyGuard(operator, store, lambda namespace: granted if namespace == PLACE else None, NAMESPACE).run()
    )
    yield tenancy
    guard.cancel()
    with suppress(asyncio.CancelledError):
        await guard


async def marked(admin: Client) -> bool:
    found = await admin.request("GET", path_of("v1", "Namespace", "", PLACE))
    return ACCESS_MARK in found["metadata"].get("annotations", {})


async def change(admin: Client, kind: str, name: str, body: Any) -> None:
    api_version = "v1" if kind in ("ServiceAccount", "ConfigMap") else RBAC
    path = path_of(api_version, kind, PLACE, name)
    if body is None:
        await admin.request("DELETE", path)
    else:
        await admin.request("PATCH", path, body=body, content_type=MERGE_PATCH)


STRAYED: dict[str, tuple[str, str, Any]] = {
    "a person binds himself": (
        "RoleBinding",
        "tenantry-admin",
        {"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}]},
    ),
    "the facade is locked out": ("RoleBinding", "tenantry-impersonation", None),
    "a role is widened": (
        "Role",
        "tenantry-impersonation",
        {"rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}]},
    ),
    "an account is gone": ("ServiceAccount", "tenantry-viewer", None),
    "an account gets a token": ("ServiceAccount", "tenantry-admin", {"automountServiceAccountToken": True}),
    "the list of regions is gone": ("ConfigMap", "tenantry-regions", None),
    "the list of regions is changed": ("ConfigMap", "tenantry-regions", {"data": {"us": "displayName: United States"}}),
    "a label is taken off": ("RoleBinding", "tenantry-viewer", {"metadata": {"labels": {"tenantry.dev/tenant": None}}}),
}


@pytest.mark.parametrize("case", STRAYED.values(), ids=STRAYED.keys())
async def test_what_strays_has_its_namespace_unmarked_until_it_is_given_anew(
    admin: Client, tenancy: KubernetesTenancy, case: tuple[str, str, Any]
) -> None:
    assert await marked(admin)
    await change(admin, *case)
    await until(_not(marked, admin), "the mark was not taken off")
    await tenancy.publish(PLACE, TENANT, REGIONS)
    await tenancy.ensure(PLACE, TENANT, "u1", ACCESS)
    assert await marked(admin)


def _not(holds: Callable[[Client], Any], client: Client) -> Callable[[], Any]:
    async def asked() -> bool:
        return not await holds(client)

    return asked
