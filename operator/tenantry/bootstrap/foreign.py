"""The allowed addresses of foreign engines: those of the settings and of the environment's region."""

from __future__ import annotations

from collections.abc import Callable

from tenantry.adapters.engine.http import HttpEngines
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.bootstrap.outward import rules_of
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.region.spec import Region
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Invalid, Problem
from tenantry.rest.outbound import Rules
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.settings import OutboundSettings, parse_networks


def foreign_rules(settings: OutboundSettings, cache: Cache) -> Callable[[EngineEndpoint], Rules]:
    """The rules of each engine of others. They raise Invalid for a region whose networks are none."""
    everywhere = rules_of(settings)

    def rules(endpoint: EngineEndpoint) -> Rules:
        region = _region(cache, endpoint)
        if region is None or not region.spec.engine.external_networks:
            return everywhere
        try:
            more = parse_networks(",".join(region.spec.engine.external_networks))
        except ValueError as error:
            problem = Problem("spec.engine.externalNetworks", f"of region {region.metadata.name}: {error}")
            raise Invalid((problem,), "Operator") from None
        return Rules(everywhere.http, (*everywhere.networks, *more))

    return rules


def planned_engines(
    engines: HttpEngines, fingerprint_key: bytes, settings: OutboundSettings
) -> Callable[[WritingStore, Cache], HttpEngines]:
    """Engines as a plan sees them: those of others by the Secrets and regions that it would make."""
    return lambda store, cache: engines.seeing(
        StoreSecrets(store, cache.document, fingerprint_key), foreign_rules(settings, cache)
    )


def _region(cache: Cache, endpoint: EngineEndpoint) -> Region | None:
    for namespace, name in cache.names(Environment.KIND, by=f"id={endpoint.environment_id}"):
        environment = cache.resource(Ref(Environment.KIND, namespace, name))
        if isinstance(environment, Environment):
            region = cache.resource(Ref(Region.KIND, "", environment.spec.region))
            return region if isinstance(region, Region) else None
    return None
