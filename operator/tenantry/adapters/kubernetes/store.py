"""Store on a real API server. Writes are single requests, held against uid and version by the server itself.

Narrow verbs are JSON patches whose `test` operations are the preconditions: one request, and what is not named stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from tenantry.adapters.kubernetes.client.http import JSON_PATCH, Client
from tenantry.adapters.kubernetes.client.wire import endpoint, object_path, received
from tenantry.adapters.store.rights import PLATFORM_ROLE, TENANT_ADMIN_ROLE, caller_tenant
from tenantry.adapters.store.semantics import STORES_OWN
from tenantry.kinds.suggesting import suggesting
from tenantry.model.documents import bound_namespace
from tenantry.model.facts import Caller
from tenantry.model.resource import FIELD_MANAGER, Document, Held, Ref
from tenantry.model.verdicts import Conflict, Forbidden, Invalid, NotFound, Problem

ADMIN_ACCOUNT = "tenantry-admin"
VIEWER_ACCOUNT = "tenantry-viewer"
CALLER_EXTRA = "tenantry.dev/caller"
"""The extra by which an impersonated request names who asked; it stands in the audit log."""
NamespaceOf = Callable[[str], Awaitable[str]]
"""A Tenant's name to the namespace that it is bound to. Raises NotFound, or Forbidden where there is none."""
Patch = list[dict[str, Any]]
WRITE = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}


class KubernetesStore:
    """tenantry.ports.Store over an API server. Documents come without managedFields."""

    def __init__(self, client: Client, namespace_of: NamespaceOf | None = None, *, dry: bool = False) -> None:
        """namespace_of: for `as_`; without it the Tenant is asked for its status, a request each time. dry: stores nothing."""
        self._client = client
        self._dry = {"dryRun": "All"} if dry else {}
        self._namespace_of = namespace_of or self._bound_namespace

    async def get(self, ref: Ref) -> Document:
        return received(await self._client.request("GET", object_path(ref)), ref.kind)

    async def create(self, document: Document) -> Document:
        ref = _ref(document)
        metadata = {key: value for key, value in document["metadata"].items() if key not in STORES_OWN}
        at = endpoint(ref.kind)
        if at.namespaced and not ref.namespace:
            raise Invalid((Problem("metadata.namespace", f"is required: {ref.kind} objects have a namespace"),))
        if not at.namespaced:
            metadata.pop("namespace", None)
        body = {**document, "metadata": metadata}
        try:
            stored = await self._client.request("POST", at.path(ref.namespace), query=WRITE | self._dry, body=body)
        except Invalid as refused:
            raise suggesting(ref.kind, refused) from refused
        return received(stored, ref.kind)

    async def replace(self, document: Document, version: str) -> Document:
        ref = _ref(document)
        if not version:
            raise Invalid((Problem("metadata.resourceVersion", "must be given to replace an object"),))
        at, given = endpoint(ref.kind), document["metadata"]
        patch = _held(Held(ref, given.get("uid", ""), version))
        for key in ("labels", "annotations", "ownerReferences"):
            patch += _put(f"/metadata/{key}", given.get(key))
        apart = {"apiVersion", "kind", "metadata"} | ({"status"} if at.has_status else set())
        body = {at.declared: None} | {key: value for key, value in document.items() if key not in apart}
        for key, value in body.items():
            patch += _put(f"/{key}", value) if key else []
        return await self._patch(ref, patch)

    async def set_status(self, held: Held, status: Document) -> Document:
        seen = status.get("observedGeneration")
        if isinstance(seen, int) and seen > 0:
            try:
                about = [*_held(held._replace(version="")), _test("/metadata/generation", seen)]
                return await self._patch(held.ref, [*about, *_put("/status", status)], "status")
            except Conflict:
                if not held.version:
                    raise
        return await self._patch(held.ref, [*_held(held), *_put("/status", status)], "status")

    async def set_finalizers(self, held: Held, names: tuple[str, ...]) -> Document:
        return await self._patch(held.ref, [*_held(held), *_put("/metadata/finalizers", list(names))])

    async def delete(self, held: Held) -> Document:
        # An object that goes at once is not in the answer: it is read before.
        last = await self.get(held.ref)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {key: value for key, value in (("uid", held.uid), ("resourceVersion", held.version)) if value},
            **({"dryRun": ["All"]} if self._dry else {}),
        }
        answer = await self._client.request("DELETE", object_path(held.ref), body=options)
        return last if answer.get("kind") == "Status" else received(answer, held.ref.kind)

    def as_(self, caller: Caller) -> KubernetesStoreAs:
        """With the rights of the tenant's ServiceAccount of that role; a caller of the platform keeps the platform's."""
        return KubernetesStoreAs(self, self._client, caller, self._namespace_of)

    def dry_run(self) -> KubernetesStore:
        return KubernetesStore(self._client, self._namespace_of, dry=True)

    async def _patch(self, ref: Ref, patch: Patch, subresource: str = "") -> Document:
        path = object_path(ref, subresource)
        try:
            stored = await self._client.request("PATCH", path, query=WRITE | self._dry, body=patch, content_type=JSON_PATCH)
        except Invalid as refused:
            raise suggesting(ref.kind, refused) from refused
        return received(stored, ref.kind)

    async def _bound_namespace(self, tenant: str) -> str:
        document = await self.get(Ref("Tenant", "", tenant))
        name = bound_namespace(document)
        if not name:
            raise Forbidden(f"tenant {tenant} has no namespace yet")
        return name


class KubernetesStoreAs:
    """A store with one caller's rights: Kubernetes' RBAC judges each request, by impersonation."""

    def __init__(
        self, own: KubernetesStore, client: Client, caller: Caller, namespace_of: NamespaceOf, *, dry: bool = False
    ) -> None:
        self._own = own
        self._dry = dry
        self._client = client
        self._caller = caller
        self._namespace_of = namespace_of
        self._store: KubernetesStore | None = None

    async def get(self, ref: Ref) -> Document:
        return await (await self._impersonating()).get(ref)

    async def create(self, document: Document) -> Document:
        return await (await self._impersonating()).create(document)

    async def replace(self, document: Document, version: str) -> Document:
        return await (await self._impersonating()).replace(document, version)

    async def set_status(self, held: Held, status: Document) -> Document:
        return await (await self._impersonating()).set_status(held, status)

    async def set_finalizers(self, held: Held, names: tuple[str, ...]) -> Document:
        return await (await self._impersonating()).set_finalizers(held, names)

    async def delete(self, held: Held) -> Document:
        return await (await self._impersonating()).delete(held)

    def as_(self, caller: Caller) -> KubernetesStoreAs:
        return self._own.as_(caller)

    def dry_run(self) -> KubernetesStoreAs:
        return KubernetesStoreAs(self._own.dry_run(), self._client, self._caller, self._namespace_of, dry=True)

    async def _impersonating(self) -> KubernetesStore:
        """The namespace may come into being after the caller did: it is looked up at the first request."""
        if self._store is None:
            headers = await self._headers()
            client = self._client.with_headers(headers)
            self._store = KubernetesStore(client, self._namespace_of, dry=self._dry) if headers else self._own
        return self._store

    async def _headers(self) -> Mapping[str, str]:
        caller = self._caller
        tenant = caller_tenant(caller)
        if tenant is None:
            if caller.role != PLATFORM_ROLE:
                raise Forbidden(f"{caller.username} has no tenant")
            return {}
        try:
            namespace = await self._namespace_of(tenant.name)
        except NotFound as error:
            raise Forbidden(f"{caller.username} is of tenant {tenant.name}, which does not exist") from error
        return impersonation(namespace, caller)


def impersonation(namespace: str, caller: Caller) -> Mapping[str, str]:
    """The headers that make a request the tenant's ServiceAccount's, and name the caller."""
    account = ADMIN_ACCOUNT if caller.role == TENANT_ADMIN_ROLE else VIEWER_ACCOUNT
    return {
        "Impersonate-User": f"system:serviceaccount:{namespace}:{account}",
        f"Impersonate-Extra-{quote(CALLER_EXTRA, safe='')}": quote(caller.username, safe="@"),
    }


def _held(held: Held) -> Patch:
    """The preconditions; an empty field matches any."""
    tests = (("/metadata/uid", held.uid), ("/metadata/resourceVersion", held.version))
    return [_test(path, value) for path, value in tests if value]


def _test(path: str, value: Any) -> dict[str, Any]:
    return {"op": "test", "path": path, "value": value}


def _put(path: str, value: Any) -> Patch:
    """Whatever is there becomes the value, or goes where there is none. What is absent must be there to be removed."""
    added = {"op": "add", "path": path, "value": value}
    return [added] if value else [added, {"op": "remove", "path": path}]


def _ref(document: Document) -> Ref:
    """The reference of a document that may be anything. Raises Invalid."""
    kind, metadata = document.get("kind"), document.get("metadata")
    if not isinstance(kind, str) or not kind:
        raise Invalid((Problem("kind", "is required"),))
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Invalid((Problem("metadata.name", "is required"),))
    namespace = metadata.get("namespace") or ""
    if not isinstance(namespace, str):
        raise Invalid((Problem("metadata.namespace", "must be a string"),))
    return Ref(kind, namespace if endpoint(kind).namespaced else "", metadata["name"])
