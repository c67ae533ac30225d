"""A guard of the objects that open tenants' namespaces: accounts, roles and bindings, and the list of usable Regions.

A user who may write in a namespace could bind himself, or lock the facade out. The guard removes the mark of granted access
from such a namespace, and the next reconcile of its Tenant grants it, and publishes the list, again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import NamedTuple

import orjson
import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.client.watching import Listed, watch_labelled
from tenantry.adapters.kubernetes.tenancy.namespaces import OURS, regions_object, tenant_objects
from tenantry.adapters.tenancy import TenantNamespaces
from tenantry.model.facts import RegionFacts, TenantAccess
from tenantry.model.resource import TENANT_LABEL, Document
from tenantry.model.verdicts import Halt
from tenantry.ports import Store

log = structlog.get_logger(__name__)


class Granted(NamedTuple):
    """The tenant of a namespace, the access that this is marked to have, and the Regions that its people were shown."""

    tenant: str
    access: TenantAccess
    regions: tuple[RegionFacts, ...] = ()


GrantedIn = Callable[[str], Granted | None]
"""Return what was granted in a namespace; None while nothing is, or the tenant is being deleted."""
_KINDS = {
    "ServiceAccount": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ConfigMap": "v1",
}
_SELECTOR = ",".join((*(f"{key}={value}" for key, value in OURS.items()), TENANT_LABEL))
_GUARDED = ("roleRef", "subjects", "rules", "automountServiceAccountToken", "data")
SETTLES_S = 1.0
Name = tuple[str, str]


class TenancyGuard:
    """Follows the objects of all tenants' namespaces, and compares them with what was given."""

    def __init__(self, client: Client, store: Store, granted_in: GrantedIn, system_namespace: str) -> None:
        self._client = client
        self._namespaces = TenantNamespaces(store)
        self._granted_in = granted_in
        self._system_namespace = system_namespace
        self._held: dict[str, dict[Name, bytes]] = {}
        self._touched: set[str] = set()
        self._suspect: set[str] = set()

    async def run(self) -> None:
        """Without end."""
        async with asyncio.TaskGroup() as tasks:
            for kind in _KINDS:
                tasks.create_task(self._follow(kind), name=f"guard-{kind}")
            tasks.create_task(self._look(), name="guard")

    async def _follow(self, kind: str) -> None:
        async for told in watch_labelled(self._client, path_of(_KINDS[kind], kind), _SELECTOR, _named_essence):
            if isinstance(told, Listed):
                before = self._held.get(kind, {})
                held = self._held[kind] = dict(told.objects)
                self._touched |= {namespace for namespace, _ in (*before, *held)}
            else:
                (name, essence), held = told.object, self._held[kind]
                if told.type == "DELETED":
                    held.pop(name, None)
                else:
                    held[name] = essence
                self._touched.add(name[0])

    async def _look(self) -> None:
        """Check twice before acting, because several watches report a new grant one after another."""
        while True:
            await asyncio.sleep(SETTLES_S)
            if self._held.keys() != _KINDS.keys():
                continue  # not all have been listed yet
            touched, self._touched = self._touched, set()
            for namespace in touched:
                await self._judge(namespace, self._strayed(namespace))

    async def _judge(self, namespace: str, strayed: str) -> None:
        if not strayed:
            self._suspect.discard(namespace)
        elif namespace not in self._suspect:
            self._suspect.add(namespace)
            self._touched.add(namespace)
        else:
            self._suspect.discard(namespace)
            log.warning("the access to a tenant's namespace has been changed", namespace=namespace, objects=strayed)
            await self._take_off_mark(namespace)

    def _strayed(self, namespace: str) -> str:
        """The objects that are not as they were made."""
        granted = self._granted_in(namespace)
        if granted is None:
            return ""
        wanted = list(tenant_objects(namespace, granted.tenant, granted.access, self._system_namespace))
        if granted.regions:  # a tenant that never had one has no list
            wanted.append(regions_object(namespace, granted.tenant, granted.regions))
        return ", ".join(f"{each['kind']} {each['metadata']['name']}" for each in wanted if not self._stands(each))

    def _stands(self, wanted: Document) -> bool:
        return self._held[wanted["kind"]].get(_name(wanted)) == _essence(wanted)

    async def _take_off_mark(self, namespace: str) -> None:
        try:
            found = await self._namespaces.find(namespace)
            if found is not None:
                await self._namespaces.release(found)
        except Halt as halt:
            log.warning("a namespace keeps its mark for now", namespace=namespace, error=str(halt))


def _name(document: Document) -> Name:
    return document["metadata"]["namespace"], document["metadata"]["name"]


def _named_essence(document: Document) -> tuple[Name, bytes]:
    return _name(document), _essence(document)


def _essence(document: Document) -> bytes:
    """Return the parts of an object that grant rights. A digest, because there are many objects."""
    parts = [document.get(key) for key in _GUARDED]
    return hashlib.blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=12).digest()
