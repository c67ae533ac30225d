"""The one table of kinds. A kind says what it is by class variables; every list of kinds is derived here or from them."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.app import decide as app_decide
from tenantry.kinds.app import observe as app_observe
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment import decide as environment_decide
from tenantry.kinds.environment import observe as environment_observe
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.identity import decide as identity_decide
from tenantry.kinds.identity import observe as identity_observe
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.identity_provider import decide as identity_provider_decide
from tenantry.kinds.identity_provider import observe as identity_provider_observe
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.package import decide as package_decide
from tenantry.kinds.package import observe as package_observe
from tenantry.kinds.package.spec import Package
from tenantry.kinds.region import decide as region_decide
from tenantry.kinds.region import observe as region_observe
from tenantry.kinds.region.spec import Region
from tenantry.kinds.source import decide as source_decide
from tenantry.kinds.source import observe as source_observe
from tenantry.kinds.source.spec import Source
from tenantry.kinds.tenant import decide as tenant_decide
from tenantry.kinds.tenant import observe as tenant_observe
from tenantry.kinds.tenant.decide import Observed as TenantObserved
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user import decide as user_decide
from tenantry.kinds.user import observe as user_observe
from tenantry.kinds.user.spec import User
from tenantry.model.resource import Resource
from tenantry.ports import Kind, World


async def _observe_tenant(tenant: Tenant, world: World) -> TenantObserved:
    """Observe a Tenant with every kind that tenants declare: those are deleted with it, dependents first."""
    declared = [KINDS[name].type for name in reversed(OF_TENANTS)]
    return await tenant_observe.observe(tenant, world, declared)


KINDS: dict[str, Kind[Any, Any]] = {
    kind.type.KIND: kind
    for kind in (
        Kind(Region, region_observe.observe, region_decide.decide),
        Kind(Tenant, _observe_tenant, tenant_decide.decide),
        Kind(User, user_observe.observe, user_decide.decide),
        Kind(Environment, environment_observe.observe, environment_decide.decide, environment_decide.standing),
        Kind(Package, package_observe.observe, package_decide.decide),
        Kind(App, app_observe.observe, app_decide.decide, app_decide.standing),
        Kind(Identity, identity_observe.observe, identity_decide.decide),
        Kind(IdentityProvider, identity_provider_observe.observe, identity_provider_decide.decide),
        Kind(Source, source_observe.observe, source_decide.decide),
    )
}
"""The kinds that are reconciled, in order of dependency."""

TYPES: dict[str, type[Resource[Any, Any]]] = {
    **{name: kind.type for name, kind in KINDS.items()},
    Operation.KIND: Operation,
    Namespace.KIND: Namespace,
}
"""Every kind that is read as a typed resource."""

CREDENTIAL = "Secret"
"""The core kind of the credentials that declarations refer to."""

DECLARED: tuple[str, ...] = tuple(
    each for name in KINDS for each in ((Namespace.KIND, Tenant.KIND, CREDENTIAL) if name == Tenant.KIND else (name,))
)
"""The kinds that a source may declare, in order of dependency: a Secret needs its namespace, and most need their Secret."""

CONTENTS: tuple[str, ...] = tuple(name for name, kind in KINDS.items() if kind.type.IN_ENVIRONMENT)
"""The kinds that are part of an Environment."""

RIGHTS: tuple[str, ...] = tuple(name for name, kind in KINDS.items() if kind.type.LETS_IN)
"""The kinds that let somebody sign in."""

OF_TENANTS: tuple[str, ...] = tuple(name for name, kind in KINDS.items() if kind.type.TENANT_DECLARES)
"""The kinds that live in the namespaces of tenants and are theirs to declare."""

FOLLOWED: tuple[str, ...] = (Namespace.KIND, CREDENTIAL, *(name for name in TYPES if name != Namespace.KIND))
"""Every kind that the cache holds; namespaces and secrets first, because the others look at them."""

FINALIZED: frozenset[str] = frozenset(name for name, kind in KINDS.items() if kind.type.FINALIZED)
"""The kinds whose objects are created with our finalizer."""
