"""What every host has alike: the kinds that are followed, and the ports of one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.kinds.registry import KINDS, TYPES
from tenantry.model.resource import Ref
from tenantry.ports import Deployer, Engines, Fetcher, Hands, OperationLogs, Packages, Sources, Store, Tenancy, World
from tenantry.runtime.following import TrackedView
from tenantry.runtime.retention import Keep
from tenantry.runtime.writing import WritingStore
from tenantry.settings import Settings

FOLLOWED = ("Namespace", "Secret", *(kind for kind in TYPES if kind != "Namespace"))
"""Every kind that the cache holds; namespaces and secrets first, for the others look at them."""
FINALIZED = frozenset(name for name, kind in KINDS.items() if kind.type.FINALIZED)


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def kept(settings: Settings) -> Keep:
    """Which Operations are kept."""
    operations = settings.operations
    return Keep(operations.keep, operations.per_target, operations.per_tenant, operations.total)


@dataclass(frozen=True)
class Ports:
    """runtime.cycle.Seat over real ports."""

    store: WritingStore
    tenancy: Callable[[Store], Tenancy]
    fingerprint_key: bytes
    deployer: Deployer
    engines: Engines
    packages: Packages
    logs: OperationLogs
    fetcher: Fetcher
    sources: Sources

    def world(self, view: TrackedView) -> World:
        secrets = StoreSecrets(self.store, view.peek, self.fingerprint_key)
        return World(view, secrets, self.deployer, self.engines, self.packages, self.sources)

    def hands(self, origin: Ref) -> Hands:
        store = self.store.on_behalf_of(origin)
        secrets = StoreSecrets(store, lambda ref: None, self.fingerprint_key)
        tenancy, packages = self.tenancy(store), self.packages
        return Hands(store, tenancy, secrets, self.deployer, self.engines, packages, self.logs, self.fetcher, self.sources)
