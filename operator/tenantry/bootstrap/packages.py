"""Package files, as large as the settings allow: the same everywhere, or a plan would allow what a pass refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tenantry.engine.packages import build, check
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import PackageFacts
from tenantry.runtime.cache import Cache
from tenantry.settings import Settings


@dataclass(frozen=True)
class Checking:
    """Makes and checks package files. Blocks."""

    limits: check.Limits

    @classmethod
    def of(cls, settings: Settings) -> Checking:
        allowed = settings.packages
        return cls(check.Limits(allowed.size, allowed.entries, allowed.inflated, allowed.ratio, allowed.manifest))

    def inspect(self, package: Path) -> PackageFacts:
        """What a file says of itself. Raises Invalid."""
        return check.inspect(package, self.limits)

    def build(self, folder: Path, out: Path) -> PackageFacts:
        """The file of a package's source. Raises Invalid."""
        return build.build(folder, out, self.limits)


def bound_tenants(cache: Cache) -> dict[str, str]:
    """The names of the Tenants that have a namespace, by that namespace."""
    tenants = (tenant for tenant in cache.resources(Tenant.KIND) if isinstance(tenant, Tenant))
    return {tenant.status.namespace.name: tenant.metadata.name for tenant in tenants if tenant.status.namespace}
