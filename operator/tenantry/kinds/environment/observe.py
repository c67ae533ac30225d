"""Observe the inputs of an Environment."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.children import Child
from tenantry.kinds.environment.decide import admin_secret, engine_ref
from tenantry.kinds.environment.moving import looks_at
from tenantry.kinds.environment.placement import RegionPlacement, placed
from tenantry.kinds.environment.seen import Observed, SeenForeign, SeenRegion, SeenTenant
from tenantry.kinds.environment.sleeping import UNKNOWN, Use, waits_for_engine
from tenantry.kinds.environment.spec import Environment, host_label
from tenantry.kinds.environment.unmanaged import Contents
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.region.pools import declared_pools, server_of, with_default_pool
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenancy import declared_endpoint, endpoint_of, tenant_of
from tenantry.model.claims import Claim, holds_id, rivals_of
from tenantry.model.facts import EngineEndpoint, EngineFacts, EngineRef, SecretFacts
from tenantry.model.resource import RESTORING, SYSTEM_NAMESPACE, Resource
from tenantry.model.verdicts import EngineTaken, Halt, NotFound, Stalled, Transient, Waiting
from tenantry.ports import View, World

CHILDREN: tuple[type[Resource[Any, Any]], ...] = (App, Identity, IdentityProvider)


async def observe(environment: Environment, world: World) -> Observed:
    """Its tenant and region, rivals for its slug, its engine, and while it is being deleted its children."""
    view = world.resources
    tenant = _tenant(environment, world)
    slug = tenant.slug if tenant else ""
    secret = admin_secret(environment)
    region = _region(environment, tenant, world)
    holds = _holds_id(environment, view)  # else no engine is read: the engine of that id belongs to another environment
    foreign = await _foreign(environment, region, world) if holds else None
    contents = await _contents(environment, world) if holds and (foreign is None or foreign.failure is None) else None
    ours = holds and environment.spec.engine.external is None
    ref = engine_ref(environment, slug, tenant.uid if tenant else "")
    engine = await _engine(environment, ref, world) if ours else None
    other = looks_at(environment, placed(environment, engine, region.placement)) if ours and region is not None else None
    return Observed(
        environment=environment,
        tenant=tenant,
        region=region,
        rivals=_rivals(environment, view),
        engine=engine,
        elsewhere=await world.deployer.engine(ref, other) if other is not None else None,
        admin=world.secrets.look(secret.namespace, secret.name, "password", "environment"),
        preview=world.deployer.preview(environment.spec.region, slug, environment.wanted_slug) if slug else "",
        children=_children(environment, view) if environment.deleting else (),
        database=_database(environment, world),
        contents=contents,
        foreign=foreign,
        holds_id=holds,
        holds_host=_holds_host(environment, slug),
        host_rivals=_host_rivals(environment, slug, view),
        use=await _use(environment, engine, world, moves=other is not None),
    )


async def _use(environment: Environment, engine: EngineFacts | None, world: World, *, moves: bool) -> Use:
    """Return the use of an engine that may sleep. An engine that needs to run is not asked. moves: to another place."""
    dedicated = world.deployer.provider == "Kubernetes" and engine is not None and not engine.pool
    if environment.spec.hibernation is None or engine is None or not dedicated or environment.deleting:
        return UNKNOWN
    if needs := "its move" if moves else _needs(environment, engine, world.resources):
        return Use(needs=needs)
    endpoint = endpoint_of(environment)
    if engine.status != "RUNNING" or endpoint is None:
        return UNKNOWN
    try:
        return Use(await world.engines.unused(endpoint))
    except Halt:  # the engine does not answer: it is asked again
        return UNKNOWN


def _needs(environment: Environment, engine: EngineFacts, view: View) -> str:
    """Return what needs the engine to run, `""` for nothing."""
    if RESTORING in environment.metadata.annotations:
        return "a restore"
    own = environment.metadata.uid if engine.asleep else ""  # an edit of the Environment does not wake its engine
    for each in view.list(Operation, SYSTEM_NAMESPACE, f"environmentId={environment.id}"):
        if not each.finished and each.spec.action != "HIBERNATE_ENVIRONMENT" and each.spec.target.uid != own:
            return f"operation {each.id}"
    namespace, by = environment.metadata.namespace, f"environment={environment.metadata.name}"
    waiting = (one for kind in CHILDREN for one in view.list(kind, namespace, by) if waits_for_engine(one))
    return next((str(one.ref) for one in waiting), "")


async def _engine(environment: Environment, ref: EngineRef, world: World) -> EngineFacts | None:
    """The engine, or None. While the environment is being deleted, an engine of another is none: it is left alone."""
    try:
        return await world.deployer.engine(ref)
    except EngineTaken:
        if environment.deleting:
            return None
        raise


def _holds_id(environment: Environment, view: View) -> bool:
    """Return True if the declared id belongs to this environment, among those of all tenants."""
    own = environment.id == environment.metadata.uid
    return own or holds_id(environment, view.list(Environment, by=f"id={environment.id}"))


async def _foreign(environment: Environment, region: SeenRegion | None, world: World) -> SeenForeign | None:
    """The engine of others that is asked for, where the region allows that; nobody is called otherwise."""
    endpoint = declared_endpoint(environment)
    allowed = region is not None and region.allowed and region.external
    if endpoint is None or endpoint.admin_secret is None or environment.deleting or not allowed:
        return None
    secret = endpoint.admin_secret
    seen = world.secrets.look(secret.namespace, secret.name, endpoint.admin_key, "environment")
    return SeenForeign(seen, await _failure(endpoint, world) if seen.state == "Present" else None)


async def _failure(endpoint: EngineEndpoint, world: World) -> Stalled | Waiting | Transient | None:
    """Return the reason why it cannot be used now, or None."""
    try:
        await world.engines.at(endpoint).apps()
    except Halt as halt:
        verdict = halt.verdict
        if isinstance(halt, NotFound) or verdict.reason == "EngineAnswer":
            return Transient("NotAnEngine", f"spec.engine.external.url: {endpoint.url} is not an engine: {verdict.message}")
        return verdict
    return None


async def _contents(environment: Environment, world: World) -> Contents | None:
    """Return the undeclared contents, if they are to be removed. The engine is read first, so later declarations count.

    Not during a restore, which brings the engine's contents before their declarations.
    """
    endpoint = endpoint_of(environment)
    comes_or_goes = environment.deleting or RESTORING in environment.metadata.annotations
    if comes_or_goes or environment.spec.engine.unmanaged != "Remove" or endpoint is None:
        return None
    engine, view = world.engines.at(endpoint), world.resources
    held = (await engine.apps(), await engine.identities(), await engine.identity_providers())
    namespace, by = environment.metadata.namespace, f"environment={environment.metadata.name}"
    providers = view.list(IdentityProvider, namespace, by)
    return Contents(
        endpoint,
        *held,
        apps=frozenset(app.spec.app for app in view.list(App, namespace, by)),
        usernames=frozenset(one.spec.username.casefold() for one in view.list(Identity, namespace, by)),
        providers=frozenset(known for one in providers for known in (one.name, one.status.id) if known),
    )


def _database(environment: Environment, world: World) -> SecretFacts | None:
    """The Secret with the URL of the database that is asked for."""
    declared = environment.spec.engine.database
    if declared is None:
        return None
    secret = declared.secret_ref
    return world.secrets.look(environment.metadata.namespace, secret.name, secret.key, "environment")


def _tenant(environment: Environment, world: World) -> SeenTenant | None:
    view = world.resources
    namespace = environment.metadata.namespace
    tenant = tenant_of(view, namespace)
    if tenant is None:
        return None
    quota = tenant.spec.quota.environments
    return SeenTenant(
        name=tenant.metadata.name,
        uid=tenant.metadata.uid,
        slug=tenant.status.slug or "",
        deleting=tenant.deleting,
        quota=quota,
        older=_older(environment, view) if quota is not None else 0,
        limits=tenant.spec.quota.limits.over(world.quotas),
    )


def _older(environment: Environment, view: View) -> int:
    mine = (environment.metadata.creation_timestamp, environment.metadata.uid)
    siblings = view.list(Environment, environment.metadata.namespace)
    return sum(1 for one in siblings if (one.metadata.creation_timestamp, one.metadata.uid) < mine)


def _region(environment: Environment, tenant: SeenTenant | None, world: World) -> SeenRegion | None:
    region = world.resources.get(Region, "", environment.spec.region)
    if region is None:
        return None
    rules = region.spec.engine
    provider = world.deployer.provider if region.spec.provider == "Host" else region.spec.provider
    return SeenRegion(
        provider=provider,
        allowed=tenant is not None and region.allows(tenant.name, tenant.uid),
        images=tuple(rules.images) if rules.images is not None else None,
        sizes=tuple(rules.sizes) if rules.sizes is not None else None,
        external=rules.external,
        deleting=region.deleting,
        placement=region_placement(
            with_default_pool(region, world.default_pool), provider == world.deployer.provider == "Kubernetes"
        ),
        remote=region.remote,
    )


def region_placement(region: Region, offered: bool) -> RegionPlacement:
    """Return the places that a Region has for engines. offered: False where its engines are all in one process."""
    pools = tuple((pool.name, id_) for id_, pool in declared_pools(region).items())
    left = tuple((pool.name, pool.id) for pool in region.status.pools)
    servers = frozenset(id_ for _, id_ in (*left, *pools) if server_of(region, id_) is not None)
    return RegionPlacement(region.spec.engine.placement or "", pools, offered, left, servers)


def _holds_host(environment: Environment, tenant_slug: str) -> bool:
    status = environment.status
    return (status.slug, status.tenant_slug) == (environment.wanted_slug, tenant_slug)


def _host_rivals(environment: Environment, tenant_slug: str, view: View) -> tuple[Claim, ...]:
    """Slugs of two hyphens in a row, from before they were refused, can give two tenants' environments one host."""
    host = host_label(environment.wanted_slug, tenant_slug)
    return rivals_of(environment, view.list(Environment, by=f"host={host}"), lambda other: True)


def _rivals(environment: Environment, view: View) -> tuple[Claim, ...]:
    slug = environment.wanted_slug
    others = view.list(Environment, environment.metadata.namespace, by=f"slug={slug}")
    return rivals_of(environment, others, lambda other: other.status.slug == slug)


def _children(environment: Environment, view: View) -> tuple[Child, ...]:
    by = f"environment={environment.metadata.name}"
    return tuple(
        Child(one.held, one.deleting) for kind in CHILDREN for one in view.list(kind, environment.metadata.namespace, by)
    )
