"""The namespaces of tenants: made, adopted by consent, opened to the tenant's people, removed with what is left in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tenantry.model.facts import RegionFacts, TenantAccess
from tenantry.model.resource import (
    ACCESS_MARK,
    DELETION_CONFIRMED,
    FINALIZER,
    GROUP,
    MADE_FOR,
    SYSTEM_NAMESPACE,
    TENANT_LABEL,
    Document,
    Held,
    Ref,
    held_of,
)
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled, Waiting
from tenantry.ports import Store

USED_BY = f"{GROUP}/used-by"
"""Annotation: the uid of the Tenant that has the namespace, or had it last. It stays when a namespace is released."""
LOOKED_AT = timedelta(seconds=15)
"""The interval of the check that a namespace no longer holds objects of an earlier Tenant."""
MOST_NAMED = 5
Inside = Callable[[str], Awaitable[list[Ref]]]
"""Return the objects of a namespace, of any kind that could be a Tenant's."""


class TenantNamespaces:
    """The namespaces of tenants in any store: whose they are, and what is noted on them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(
        self, namespace: str, tenant: str, tenant_uid: str, inside: Inside, **born_with: Any
    ) -> tuple[Document, bool]:
        """Return the tenant's namespace, and True if it is new: created with the given metadata, created before, or adopted by
        consent. inside: lists the objects of another Tenant in it.

        Raises a Stalled Halt (NamespaceTaken), or a Waiting one (NamespaceDeleting, NamespaceNotEmpty).
        """
        if _is_reserved(namespace):
            raise _taken(f"namespace {namespace} is reserved and cannot be a tenant's")
        made = await self._make(namespace, tenant, tenant_uid, born_with)
        found = made or await self.find(namespace)
        if found is None:
            raise Halt(Waiting("NamespaceDeleting", f"namespace {namespace} was removed just now"))
        if "deletionTimestamp" in found["metadata"]:
            raise Halt(Waiting("NamespaceDeleting", f"namespace {namespace} is still being deleted"))
        if made_for(found) != tenant_uid and _consent(found) != tenant:
            raise _taken(
                f"namespace {namespace} exists and is not {tenant}'s: label it {TENANT_LABEL}={tenant} to have it adopted"
            )
        if used_by(found) not in ("", tenant_uid):
            _check_empty(namespace, await inside(namespace), tenant_uid)
        return found, made is not None

    async def note(self, namespace: Document, tenant: str, tenant_uid: str, access: TenantAccess) -> None:
        """Notes whose it is, the access that is given, and the tenant's label where somebody took it off."""
        metadata = namespace["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        notes = {ACCESS_MARK: access.mark, USED_BY: tenant_uid}
        if notes.items() <= annotations.items() and labels.get(TENANT_LABEL) == tenant:
            return
        noted = {
            **metadata,
            "labels": {**labels, TENANT_LABEL: tenant},
            "annotations": {**annotations, **notes},
        }
        await self._store.replace({**namespace, "metadata": noted}, metadata["resourceVersion"])

    async def release(self, namespace: Document) -> None:
        """Takes the access off a namespace that was adopted. Whose it was stays noted, for what is left in it is theirs."""
        metadata = namespace["metadata"]
        annotations = metadata.get("annotations") or {}
        if ACCESS_MARK in annotations:
            left = {key: value for key, value in annotations.items() if key != ACCESS_MARK}
            released = {**namespace, "metadata": {**metadata, "annotations": left}}
            await self._store.replace(released, metadata["resourceVersion"])

    async def confirm(self, namespace: Document) -> Document:
        """Return it noted as what may be deleted: a store refuses that for the namespace of a Tenant."""
        metadata = namespace["metadata"]
        annotations = metadata.get("annotations") or {}
        if "deletionTimestamp" in metadata or annotations.get(DELETION_CONFIRMED) == "true":
            return namespace
        noted = {**metadata, "annotations": {**annotations, DELETION_CONFIRMED: "true"}}
        return await self._store.replace({**namespace, "metadata": noted}, metadata["resourceVersion"])

    async def find(self, namespace: str) -> Document | None:
        """The namespace, or None."""
        try:
            return await self._store.get(Ref("Namespace", "", namespace))
        except NotFound:
            return None

    async def _make(self, namespace: str, tenant: str, tenant_uid: str, born_with: Mapping[str, Any]) -> Document | None:
        """None when there is one of that name."""
        annotations = {MADE_FOR: tenant_uid, USED_BY: tenant_uid, **born_with.get("annotations", {})}
        metadata = {**born_with, "name": namespace, "labels": {TENANT_LABEL: tenant}, "annotations": annotations}
        try:
            return await self._store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        except AlreadyExists:
            return None


class EmbeddedTenancy:
    """ports.Tenancy over an embedded store, whose namespaces have no controller of their own."""

    def __init__(self, store: Store, inside: Inside) -> None:
        """inside: everything that a namespace holds, of any kind."""
        self._store = store
        self._namespaces = TenantNamespaces(store)
        self._inside = inside

    async def ensure(self, namespace: str, tenant: str, tenant_uid: str, access: TenantAccess) -> None:
        """The finalizer keeps the namespace, closed to new objects, until it has been emptied.

        Who may come in is the store's own rule here. Raises a Halt: Stalled (NamespaceTaken) or Waiting (NamespaceDeleting,
        NamespaceNotEmpty).
        """
        born_with = {"finalizers": [FINALIZER], "annotations": {ACCESS_MARK: access.mark}}
        try:
            found, _ = await self._namespaces.claim(namespace, tenant, tenant_uid, self._inside, **born_with)
        except Halt as halt:
            if halt.verdict.reason != "NamespaceDeleting" or not await self._emptied(namespace, tenant_uid):
                raise
            found, _ = await self._namespaces.claim(namespace, tenant, tenant_uid, self._inside, **born_with)
        await self._namespaces.note(found, tenant, tenant_uid, access)

    async def publish(self, namespace: str, tenant: str, regions: Sequence[RegionFacts]) -> None:
        """Nothing: people come by REST here, where GET /regions lists them."""

    async def remove(self, namespace: str, uid: str) -> None:
        """`uid`: the namespace's. Raises a Waiting Halt (NamespaceNotEmpty) while something in it holds on."""
        found = await self._namespaces.find(namespace)
        if found is None or found["metadata"]["uid"] != uid:
            return
        if not made_for(found):
            await self._namespaces.release(found)
            return
        confirmed = await self._namespaces.confirm(found)
        await self._empty(held_of(await self._store.delete(held_of(confirmed)._replace(version=""))))

    async def _emptied(self, namespace: str, tenant_uid: str) -> bool:
        """Empty the namespace of a Tenant that lives, and let it go, as the controller of a cluster's namespaces does.

        False for one that is another's. Raises a Halt as `_empty` does.
        """
        found = await self._namespaces.find(namespace)
        if found is not None and made_for(found) == tenant_uid:
            await self._empty(held_of(found))
            return True
        return False

    async def _empty(self, held: Held) -> None:
        """Let a namespace and all in it go. Raises a Waiting Halt (NamespaceNotEmpty) while something in it holds on."""
        namespace = held.ref.name
        for ref in await self._inside(namespace):
            await self._delete(ref)
        left = await self._inside(namespace)
        if left:
            named = ", ".join(str(ref) for ref in left[:3])
            raise Halt(Waiting("NamespaceNotEmpty", f"namespace {namespace} still holds {named}"))
        await self._store.set_finalizers(held, ())

    async def _delete(self, ref: Ref) -> None:
        try:
            await self._store.delete(Held(ref, "", ""))
        except NotFound:
            return


def _check_empty(name: str, left: list[Ref], tenant_uid: str) -> None:
    """A label gives a namespace to who has the name, not what another Tenant left in it."""
    if left:
        named = ", ".join(map(str, left[:MOST_NAMED])) + (" and others" if len(left) > MOST_NAMED else "")
        way_on = f"delete them, or annotate the namespace {USED_BY}={tenant_uid} to give them to this Tenant"
        message = f"namespace {name} holds what an earlier Tenant left: {named}; {way_on}"
        raise Halt(Waiting("NamespaceNotEmpty", message, datetime.now(UTC) + LOOKED_AT))


def _is_reserved(namespace: str) -> bool:
    return namespace in ("default", SYSTEM_NAMESPACE) or namespace.startswith("kube-")


def made_for(namespace: Document) -> str:
    """The uid of the Tenant for which it was made, `""` for one that was adopted."""
    return str((namespace["metadata"].get("annotations") or {}).get(MADE_FOR, ""))


def used_by(namespace: Document) -> str:
    """The uid of the Tenant that has it, or had it last; `""` where none ever had it."""
    return str((namespace["metadata"].get("annotations") or {}).get(USED_BY, "")) or made_for(namespace)


def _consent(namespace: Document) -> str:
    return str((namespace["metadata"].get("labels") or {}).get(TENANT_LABEL, ""))


def _taken(message: str) -> Halt:
    return Halt(Stalled("NamespaceTaken", message))
