"""The namespaces of tenants on a cluster: with the facade's accounts, and the roles of the tenant's people."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from tenantry.adapters.kubernetes.client import APPLY_PATCH, Client
from tenantry.adapters.kubernetes.objects import path_of, reference
from tenantry.adapters.kubernetes.store import ADMIN_ACCOUNT, VIEWER_ACCOUNT, WRITE
from tenantry.adapters.kubernetes.wire import endpoint
from tenantry.adapters.kubernetes.workload import covers
from tenantry.adapters.tenancy import TenantNamespaces, made_for
from tenantry.kinds.registry import KINDS
from tenantry.model.facts import TenantAccess
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
CLUSTERS_OWN = frozenset({"kube-root-ca.crt"})
"""What a cluster puts into every namespace."""
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
        """Has the object as it is wanted. An adopted namespace may hold objects of these names already: those are left alone.

        Raises a Stalled Halt (ObjectTaken).
        """
        real = await self._find(wanted)
        if adopted and real is not None and not _is_ours(real):
            metadata = wanted["metadata"]
            where = f"{wanted['kind']} {metadata['name']} in namespace {metadata['namespace']}"
            raise Halt(Stalled("ObjectTaken", f"{where} is not Tenantry's: it is left alone, and in the way"))
        if real is None or not covers(real, wanted):
            query = {**WRITE, "force": "true"}
            await self._client.request("PATCH", reference(wanted), query=query, body=wanted, content_type=APPLY_PATCH)

    async def _made(self, wanted: Document) -> bool:
        """Was there none? In a namespace that is new that is the rule."""
        path = path_of(wanted["apiVersion"], wanted["kind"], wanted["metadata"]["namespace"])
        try:
            await self._client.request("POST", path, query=WRITE, body=wanted)
        except AlreadyExists:
            return False
        return True

    async def _release(self, namespace: Document) -> None:
        for wanted in reversed(tenant_objects(namespace["metadata"]["name"], "", TenantAccess(), self._system_namespace)):
            real = await self._find(wanted)
            if real is not None and _is_ours(real):
                with suppress(NotFound):
                    await self._client.request("DELETE", reference(wanted))
        await self._namespaces.release(namespace)

    async def _inside(self, namespace: str) -> list[Ref]:
        """What a Tenant's people could have left, and could be of use to others."""
        found = []
        paths = {kind: path_of("v1", kind, namespace) for kind in LEFT}
        paths |= {kind: endpoint(kind).path(namespace) for kind, each in KINDS.items() if each.type.NAMESPACED}
        for kind, path in paths.items():
            listed = await self._client.request("GET", path, query={"limit": "20"})
            found += [Ref(kind, namespace, each["metadata"]["name"]) for each in listed["items"]]
        return [ref for ref in found if ref.name not in CLUSTERS_OWN]

    async def _find(self, wanted: Document) -> Document | None:
        try:
            return await self._client.request("GET", reference(wanted))
        except NotFound:
            return None


def _is_ours(real: Document) -> bool:
    return covers(real["metadata"].get("labels"), OURS)


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
