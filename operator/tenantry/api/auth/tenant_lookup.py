"""Owners and ids of objects: by bindings and claims, never by a field that the author can write."""

from __future__ import annotations

from typing import Any, cast

from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Ref, Resource
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import bound_tenant, honoured_id


class Owners:
    """Looks in a cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def id_of(self, resource: Resource[Any, Any]) -> str:
        """The REST id. A declared id is honoured for the one object that holds it."""
        return honoured_id(resource, self._cache)

    def with_id(self, id_: str) -> Tenant | None:
        """The Tenant of that REST id, or None."""
        found = self._cache.resources(Tenant.KIND, by=f"id={id_}") if id_ else ()
        return next((cast(Tenant, one) for one in found if self.id_of(one) == id_), None)

    def of_namespace(self, namespace: str) -> Tenant | None:
        """The Tenant that is bound to the namespace, or None."""
        return bound_tenant(namespace, self._cache)

    def named(self, name: str) -> Tenant | None:
        """The Tenant of that name, or None."""
        return cast("Tenant | None", self._cache.resource(Ref(Tenant.KIND, "", name))) if name else None
