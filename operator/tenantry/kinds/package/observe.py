"""Observe the inputs of a Package."""

from __future__ import annotations

from tenantry.kinds.app.spec import App
from tenantry.kinds.package.decide import Observed
from tenantry.kinds.package.spec import Package
from tenantry.kinds.tenancy import tenant_of
from tenantry.model.claims import Claim, rivals_of
from tenantry.model.resource import Ref
from tenantry.ports import View, World


async def observe(package: Package, world: World) -> Observed:
    """Its bytes, rivals for its version, and while it is being deleted who still holds it."""
    view = world.resources
    tenant = _tenant(package, view)
    sha256 = package.spec.sha256
    facts = await world.packages.inspect(tenant, sha256) if tenant is not None and sha256 else None
    return Observed(
        package=package,
        tenant=tenant,
        facts=facts,
        rivals=_rivals(package, view),
        users=_users(package, view) if package.deleting else (),
        twins=_twins(package, view) if package.deleting else 0,
    )


def _tenant(package: Package, view: View) -> str | None:
    if package.spec.shared:
        return ""
    tenant = tenant_of(view, package.metadata.namespace)
    return tenant.metadata.name if tenant else None


def _rivals(package: Package, view: View) -> tuple[Claim, ...]:
    by = f"package={package.spec.app}@{package.spec.version}"
    return rivals_of(package, view.list(Package, package.metadata.namespace, by), lambda other: other.status.claimed)


def _users(package: Package, view: View) -> tuple[Ref, ...]:
    by = f"package={package.spec.app}@{package.spec.version}"
    namespace = None if package.spec.shared else package.metadata.namespace
    return tuple(app.ref for app in view.list(App, namespace, by) if not app.deleting)


def _twins(package: Package, view: View) -> int:
    twins = view.list(Package, package.metadata.namespace, f"sha256={package.spec.sha256}")
    return sum(1 for twin in twins if twin.metadata.uid != package.metadata.uid)
