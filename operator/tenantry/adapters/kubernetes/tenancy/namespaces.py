"""The namespaces of tenants on a cluster: with the facade's accounts, and the roles of the tenant's people."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from tenantry.adapters.kubernetes.client.http import APPLY_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of, reference
from tenantry.adapters.kubernetes.client.wire import endpoint
from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.store import ADMIN_ACCOUNT, VIEWER_ACCOUNT, WRITE
from tenantry.adapters.tenancy import TenantNamespaces, made_for
from tenantry.kinds.registry import KINDS
from tenantry.model.facts import RegionFacts, TenantAccess
from tenantry.model.resource import ACCESS_MARK, TENANT_LABEL, Document, Held, Ref
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled, Waiting
from tenantry.ports import Store

ADMIN_ROLE = "tenantry-tenant-admin"
VIEWER_ROLE = "tenantry-tenant-viewer"
FACADE_ACCOUNT = "tenantry-api"
IMPERSONATION = "tenantry-impersonation"
AGAIN_S = 1.0
_RBAC = "rbac.authorization.k8s.io"
LEFT = ("ConfigMap", "PersistentVolumeClaim", "Secret")
REGIONS = "tenantry-regions"
"""The ConfigMap with the Regions that a tenant may use, by name. The roles of the tenant's people name it."""
NOT_THEIRS = frozenset({"kube-root-ca.crt", REGIONS})
"""Objects that a cluster, or the platform, puts into every namespace of a tenant."""
OURS = {"app.kubernetes.io/managed-by": "tenantry"}


class KubernetesTenancy:
    """ports.Tenancy. system_namespace: where the facade's own account is."""

    def __init__(self, store: Store, client: Client, system_namespace: str) -> None:
        self._store = store
        self._namespaces = TenantNamespaces(store)
        self._client = client
        self._system_namespace = system_namespace

    async def ensure(self, namespace: str, tenant: str, tenant_uid: str, access: TenantAccess) -> None:
        """Raises a Stalled Halt (NamespaceTaken, ObjectTaken), or a Waiting one (NamespaceDeleting, NamespaceNotEmpty)."""
        born_with = {"annotations": {ACCESS_MARK: access.mark}}
        found, new = await self._namespaces.claim(namespace, tenant, tenant_uid, self._inside, **born_with)
        for wanted in tenant_objects(namespace, tenant, access, self._system_namespace):
            if not new or not await self._made(wanted):
                await self._settle(wanted, adopted=not made_for(found))
        # Last: a change of it that is interrupted is done again. One that is new is bound last, by its Tenant's status.
        await self._namespaces.note(found, tenant, tenant_uid, access)

    async def publish(self, namespace: str, tenant: str, regions: Sequence[RegionFacts]) -> None:
        """Raises a Stalled Halt (ObjectTaken)."""
        wanted = regions_object(namespace, tenant, regions)
        found = await self._namespaces.find(namespace)
        if found is not None:
            await self._settle(wanted, adopted=not made_for(found))

    async def remove(self, namespace: str, uid: str) -> None:
        """Raises a Waiting Halt (NamespaceDeleting) until the cluster has emptied it. What was adopted is released."""
        found = await self._namespaces.find(namespace)
        if found is None or found["metadata"]["uid"] != uid:
            return
        if not made_for(found):
            await self._release(found)
            return
        with suppress(NotFound):  # somebody was quicker
            await self._store.delete(Held(Ref("Namespace", "", namespace), uid, ""))
        if await self._namespaces.find(namespace) is not None:
            again = datetime.now(UTC) + timedelta(seconds=AGAIN_S)
            raise Halt(Waiting("NamespaceDeleting", f"namespace {namespace} is being deleted", again))

    async def _settle(self, wanted: Document, *, adopted: bool) -> None:
        """Bring the object to its wanted form. An adopted namespace may hold foreign objects of these names; they stay as they
        are.

        Raises a Stalled Halt (ObjectTaken).
        """
        real = await self._find(wanted)
        if adopted and real is not None and not _is_ours(real):
            metadata = wanted["metadata"]
            where = f"{wanted['kind']} {metadata['name']} in namespace {metadata['namespace']}"
            raise Halt(Stalled("ObjectTaken", f"{where} was not made by Tenantry, and is in the way: delete or rename it"))
        if real is None or not covers(real, wanted):
            query = {**WRITE, "force": "true"}
            await self._client.request("PATCH", reference(wanted), query=query, body=wanted, content_type=APPLY_PATCH)

    async def _made(self, wanted: Document) -> bool:
        """Create the object. Return False if it exists already, which is rare in a new namespace."""
        path = path_of(wanted["apiVersion"], wanted["kind"], wanted["metadata"]["namespace"])
        try:
            await self._client.request("POST", path, query=WRITE, body=wanted)
        except AlreadyExists:
            return False
        return True

    async def _release(self, namespace: Document) -> None:
        name = namespace["metadata"]["name"]
        made = tenant_objects(name, "", TenantAccess(), self._system_namespace)
        for wanted in reversed((*made, regions_object(name, "", ()))):
            real = await self._find(wanted)
            if real is not None and _is_ours(real):
                with suppress(NotFound):
                    await self._client.request("DELETE", reference(wanted))
        await self._namespaces.release(namespace)

    async def _inside(self, namespace: str) -> list[Ref]:
        """Return the objects that a Tenant's users may have left and that others could use."""
        found = []
        paths = {kind: path_of("v1", kind, namespace) for kind in LEFT}
        paths |= {kind: endpoint(kind).path(namespace) for kind, each in KINDS.items() if each.type.NAMESPACED}
        for kind, path in paths.items():
            listed = await self._client.request("GET", path, query={"limit": "20"})
            found += [Ref(kind, namespace, each["metadata"]["name"]) for each in listed["items"]]
        return [ref for ref in found if ref.name not in NOT_THEIRS]

    async def _find(self, wanted: Document) -> Document | None:
        try:
            return await self._client.request("GET", reference(wanted))
        except NotFound:
            return None


def _is_ours(real: Document) -> bool:
    return covers(real["metadata"].get("labels"), OURS)


def regions_object(namespace: str, tenant: str, regions: Sequence[RegionFacts]) -> Document:
    """The ConfigMap: by Region its display name, and the sizes and versions that it allows where it does not allow all."""
    metadata = {"name": REGIONS, "namespace": namespace, "labels": {**OURS, TENANT_LABEL: tenant}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {each.name: yaml.safe_dump(_shown(each), sort_keys=False, allow_unicode=True) for each in regions},
    }


def _shown(region: RegionFacts) -> dict[str, Any]:
    allowed = {"sizes": region.sizes, "versions": region.versions}
    return {"displayName": region.display_name} | {name: list(values) for name, values in allowed.items() if values is not None}


def tenant_objects(namespace: str, tenant: str, access: TenantAccess, system_namespace: str) -> tuple[Document, ...]:
    """The two accounts, who is what, and the facade's rights: as a SUPERUSER's hand its own, else to act as these two."""

    def made(kind: str, name: str, **body: Any) -> Document:
        api_version = "v1" if kind == "ServiceAccount" else f"{_RBAC}/v1"
        metadata = {"name": name, "namespace": namespace, "labels": {**OURS, TENANT_LABEL: tenant}}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}

    def bound(account: str, role: str, groups: tuple[str, ...]) -> Document:
        people = [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups]
        return made(
            "RoleBinding",
            account,
            roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            subjects=[{"kind": "ServiceAccount", "name": account, "namespace": namespace}, *people],
        )

    accounts = (ADMIN_ACCOUNT, VIEWER_ACCOUNT)
    facade = {"kind": "ServiceAccount", "name": FACADE_ACCOUNT, "namespace": system_namespace}
    impersonate = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": list(accounts), "verbs": ["impersonate"]}
    return (
        *(made("ServiceAccount", account, automountServiceAccountToken=False) for account in accounts),
        bound(ADMIN_ACCOUNT, ADMIN_ROLE, access.admins),
        bound(VIEWER_ACCOUNT, VIEWER_ROLE, access.viewers),
        made(
            "RoleBinding",
            FACADE_ACCOUNT,
            roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": ADMIN_ROLE},
            subjects=[facade],
        ),
        made("Role", IMPERSONATION, rules=[impersonate]),
        made(
            "RoleBinding",
            IMPERSONATION,
            roleRef={"apiGroup": _RBAC, "kind": "Role", "name": IMPERSONATION},
            subjects=[facade],
        ),
    )
