"""The shared parts of every host: the watched kinds, and the ports of one reconcile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenantry.adapters.store.secrets import Remedy, StoreSecrets, by_tenantry
from tenantry.model.facts import DefaultPool
from tenantry.model.quotas import UNLIMITED, Quotas
from tenantry.model.resource import Ref
from tenantry.ports import Deployer, Engines, Fetcher, Hands, OperationLogs, Packages, Sources, Store, Tenancy, World
from tenantry.runtime.operations.retention import Keep
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.settings import Settings


def kept(settings: Settings) -> Keep:
    """Return the rules for keeping Operations."""
    operations = settings.operations
    return Keep(operations.keep, operations.per_target, operations.per_tenant, operations.total)


def quotas_of(settings: Settings) -> Quotas:
    """The limits of Tenants that declare none."""
    given = settings.quota
    return Quotas(
        given.package_storage,
        given.database_storage,
        given.archive_storage,
        requests_per_second=given.requests_per_second,
    )


@dataclass(frozen=True)
class Ports:
    """runtime.cycle.PassPorts over real ports."""

    store: WritingStore
    tenancy: Callable[[Store], Tenancy]
    fingerprint_key: bytes
    deployer: Deployer
    engines: Engines
    packages: Packages
    logs: OperationLogs
    fetcher: Fetcher
    sources: Sources
    quotas: Quotas = UNLIMITED
    remedy: Remedy = by_tenantry
    default_pool: DefaultPool = "false"

    def world(self, view: TrackedView) -> World:
        secrets = StoreSecrets(self.store, view.peek, self.fingerprint_key, self.remedy)
        return World(
            resources=view,
            secrets=secrets,
            deployer=self.deployer,
            engines=self.engines,
            packages=self.packages,
            sources=self.sources,
            quotas=self.quotas,
            default_pool=self.default_pool,
        )

    def hands(self, origin: Ref) -> Hands:
        store = self.store.on_behalf_of(origin)
        secrets = StoreSecrets(store, lambda ref: None, self.fingerprint_key)
        tenancy, packages = self.tenancy(store), self.packages
        return Hands(
            store=store,
            tenancy=tenancy,
            secrets=secrets,
            deployer=self.deployer,
            engines=self.engines,
            packages=packages,
            logs=self.logs,
            fetcher=self.fetcher,
            sources=self.sources,
        )
