"""The limits of each Tenant, by its declaration and the platform's defaults, and counts of refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import cast

from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.quotas import ARCHIVES, QuotaReached, Quotas, check_rate, check_storage
from tenantry.model.resource import Ref
from tenantry.rest.fairness.rates import Rates
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.operations.attribution import bound_tenant


class TenantQuotas:
    """Looks limits up by a Tenant's name, and counts what is used and refused. default: for what a Tenant does not declare."""

    def __init__(self, cache: Cache, default: Quotas | None = None, rates: Rates | None = None) -> None:
        self._cache = cache
        self.default = default or Quotas()
        self._rates = rates or Rates()
        self._known: dict[str, Quotas] = {}
        self._shares: dict[tuple[str, str], float] = {}
        self.refused: Counter[str] = Counter()
        """Refusals by quota."""
        cache.listen(self._seen)

    def of(self, tenant: str) -> Quotas:
        """The limits of the Tenant with that name; those of nobody (`""`) and of one that is not there: none."""
        known = self._known.get(tenant)
        if known is None:
            found = self._cache.resource(Ref(Tenant.KIND, "", tenant)) if tenant else None
            if not isinstance(found, Tenant):
                return Quotas()
            known = self._known[tenant] = found.spec.quota.limits.over(self.default)
        return known

    def operations(self) -> dict[str, int]:
        """The number of Operations to keep of the Tenants that declare one, by uid."""
        tenants = (cast(Tenant, each) for each in self._cache.resources(Tenant.KIND))
        return {each.metadata.uid: each.spec.quota.operations for each in tenants if each.spec.quota.operations is not None}

    def admit(self, tenant: str) -> None:
        """Count a request of the Tenant. Raises QuotaReached."""
        limit = self.of(tenant).requests_per_second
        if limit is not None:
            self._counted(lambda: check_rate(limit, self._rates.take(tenant, limit), f"tenant {tenant}"))

    def check(self, quota: str, tenant: str, limit: int | None, used: int, more: int) -> None:
        """Compare what a Tenant uses (bytes) with its limit. Raises QuotaReached."""
        if limit is not None:
            self._shares[quota, tenant] = used / limit
            self._counted(lambda: check_storage(quota, limit, used, more, f"tenant {tenant}"))

    def check_archive(self, namespace: str, used: int, more: int) -> None:
        """Compare the archives of the Tenant of a namespace with its limit. Raises QuotaReached."""
        owner = bound_tenant(namespace, self._cache)
        tenant = owner.metadata.name if owner else ""
        self.check(ARCHIVES, tenant, self.of(tenant).archive_storage, used, more)

    def shares(self) -> Iterator[tuple[str, float]]:
        """The greatest share of a limit that any Tenant used when it was last looked at, by quota."""
        for quota in sorted({quota for quota, _ in self._shares}):
            yield quota, max(share for (each, _), share in self._shares.items() if each == quota)

    def count_refusal(self, quota: str) -> None:
        """Counts a refusal that was made elsewhere in this process."""
        self.refused[quota] += 1

    def _counted(self, check: Callable[[], None]) -> None:
        try:
            check()
        except QuotaReached as reached:
            self.refused[reached.quota] += 1
            raise

    def _seen(self, seen: Seen) -> None:
        if seen.ref.kind == Tenant.KIND:
            self._known.pop(seen.ref.name, None)
            if seen.after is None:
                for key in [key for key in self._shares if key[1] == seen.ref.name]:
                    del self._shares[key]
