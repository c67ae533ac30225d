"""The owner of an object in its Operations. It is permanent, also when another object later has the tenant, its name or its
id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import bindings, owner_of
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.claims import holds_id
from tenantry.model.resource import Ref, Resource
from tenantry.runtime.cache import Cache


@dataclass(frozen=True)
class Attribution:
    """tenant: its name; tenant_id, environment_id: as REST shows them. All `""` for work of the platform."""

    tenant: str = ""
    tenant_uid: str = ""
    tenant_id: str = ""
    environment_id: str = ""

    def to_spec(self) -> dict[str, str]:
        """The fields of an Operation's spec."""
        return {
            "tenant": self.tenant,
            "tenantUid": self.tenant_uid,
            "tenantId": self.tenant_id,
            "environmentId": self.environment_id,
        }


def attribution_of(resource: Resource[Any, Any], cache: Cache) -> Attribution:
    """Follows the binding of the object's namespace, never a field or label that its author can write."""
    tenant = resource if isinstance(resource, Tenant) else bound_tenant(resource.metadata.namespace, cache)
    if tenant is None:
        return Attribution()
    id_, environment = honoured_id(tenant, cache), _environment_of(resource, cache)
    environment_id = honoured_id(environment, cache) if environment is not None else ""
    return Attribution(tenant.metadata.name, tenant.metadata.uid, id_, environment_id)


def bound_tenant(namespace: str, cache: Cache) -> Tenant | None:
    """Return the Tenant that is bound to the namespace, by the cache."""
    return owner_of(namespace, cache.resources(Tenant.KIND, by=f"namespace={namespace}")) if namespace else None


def bound_tenants(cache: Cache) -> dict[str, str]:
    """Return the names of the Tenants that have a namespace, by that namespace."""
    return {namespace: tenant.metadata.name for namespace, tenant in bindings(cache.resources(Tenant.KIND))}


def honoured_id(resource: Resource[Any, Any], cache: Cache) -> str:
    """The REST id. A declared id is honoured for the one object that holds it."""
    if resource.id == resource.metadata.uid:
        return resource.id
    holds = holds_id(resource, cache.resources(resource.KIND, by=f"id={resource.id}"))
    return resource.id if holds else resource.metadata.uid


def _environment_of(resource: Resource[Any, Any], cache: Cache) -> Environment | None:
    """The Environment itself, or that in which the object is declared."""
    if isinstance(resource, Environment):
        return resource
    name = getattr(resource.spec, "environment", None)
    found = cache.resource(Ref(Environment.KIND, resource.metadata.namespace, name)) if name else None
    return cast("Environment | None", found)
