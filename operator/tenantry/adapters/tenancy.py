"""The namespaces of tenants on the embedded host: made, adopted by consent, removed with what is left in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenantry.model.resource import (
    FINALIZER,
    GROUP,
    SYSTEM_NAMESPACE,
    TENANT_LABEL,
    Document,
    Held,
    Ref,
    held_of,
)
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled, Waiting
from tenantry.ports import Store

MADE_FOR = f"{GROUP}/made-for"
"""Annotation: the uid of the Tenant for which Tenantry made the namespace. An adopted namespace lacks it."""


class EmbeddedTenancy:
    """ports.Tenancy over an embedded store, whose namespaces have no controller of their own."""

    def __init__(self, store: Store, inside: Callable[[str], Awaitable[list[Ref]]]) -> None:
        """inside: everything that a namespace holds, of any kind."""
        self._store = store
        self._inside = inside

    async def ensure(self, namespace: str, tenant: str, tenant_uid: str) -> None:
        """Raises a Stalled Halt (NamespaceTaken), or a Waiting one (NamespaceDeleting)."""
        if _is_reserved(namespace):
            raise _taken(f"namespace {namespace} is reserved and cannot be a tenant's")
        if await self._make(namespace, tenant, tenant_uid):
            return
        found = await self._find(namespace)
        if found is None:
            raise Halt(Waiting("NamespaceDeleting", f"namespace {namespace} was removed just now"))
        if "deletionTimestamp" in found["metadata"]:
            raise Halt(Waiting("NamespaceDeleting", f"namespace {namespace} is still being deleted"))
        if _made_for(found) != tenant_uid and _consent(found) != tenant:
            raise _taken(
                f"namespace {namespace} exists and is not {tenant}'s: label it {TENANT_LABEL}={tenant} to have it adopted"
            )

    async def remove(self, namespace: str, uid: str) -> None:
        """`uid`: the namespace's. Raises a Waiting Halt (NamespaceNotEmpty) while something in it holds on."""
        found = await self._find(namespace)
        if found is None or found["metadata"]["uid"] != uid or not _made_for(found):
            return
        held = held_of(await self._store.delete(held_of(found)._replace(version="")))
        for ref in await self._inside(namespace):
            await self._delete(ref)
        left = await self._inside(namespace)
        if left:
            named = ", ".join(str(ref) for ref in left[:3])
            raise Halt(Waiting("NamespaceNotEmpty", f"namespace {namespace} still holds {named}"))
        await self._store.set_finalizers(held, ())

    async def _make(self, namespace: str, tenant: str, tenant_uid: str) -> bool:
        """False when there is one of that name.

        The finalizer keeps the namespace, closed to new objects, until it has been emptied."""
        document = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {TENANT_LABEL: tenant},
                "annotations": {MADE_FOR: tenant_uid},
                "finalizers": [FINALIZER],
            },
        }
        try:
            await self._store.create(document)
        except AlreadyExists:
            return False
        return True

    async def _delete(self, ref: Ref) -> None:
        try:
            await self._store.delete(Held(ref, "", ""))
        except NotFound:
            return

    async def _find(self, namespace: str) -> Document | None:
        try:
            return await self._store.get(Ref("Namespace", "", namespace))
        except NotFound:
            return None


def _is_reserved(namespace: str) -> bool:
    return namespace in ("default", SYSTEM_NAMESPACE) or namespace.startswith("kube-")


def _made_for(namespace: Document) -> str:
    return str((namespace["metadata"].get("annotations") or {}).get(MADE_FOR, ""))


def _consent(namespace: Document) -> str:
    return str((namespace["metadata"].get("labels") or {}).get(TENANT_LABEL, ""))


def _taken(message: str) -> Halt:
    return Halt(Stalled("NamespaceTaken", message))
