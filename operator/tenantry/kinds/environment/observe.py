"""What an Environment looks at."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.decide import Child, Observed, SeenForeign, SeenRegion, SeenTenant, admin_secret, engine_ref
from tenantry.kinds.environment.spec import Environment, host_label
from tenantry.kinds.environment.unmanaged import Contents
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenancy import declared_endpoint, endpoint_of, tenant_of
from tenantry.model.claims import Claim, holds_id
from tenantry.model.facts import EngineEndpoint, SecretFacts
from tenantry.model.resource import RESTORING, Resource
from tenantry.model.verdicts import Halt, NotFound, Stalled, Transient, Waiting
from tenantry.ports import View, World

CHILDREN: tuple[type[Resource[Any, Any]], ...] = (App, Identity, IdentityProvider)


async def observe(environment: Environment, world: World) -> Observed:
    """Its tenant and region, rivals for its slug, its engine, and while it is being deleted its children."""
    view = world.resources
    tenant = _tenant(environment, view)
    slug = tenant.slug if tenant else ""
    secret = admin_secret(environment)
    region = _region(environment, tenant, world)
    holds = _holds_id(environment, view)  # else no engine is looked at: the one of that id is somebody else's
    foreign = await _foreign(environment, region, world) if holds else None
    contents = await _contents(environment, world) if holds and (foreign is None or foreign.failure is None) else None
    ours = holds and environment.spec.engine.external is None
    return Observed(
        environment=environment,
        tenant=tenant,
        region=region,
        rivals=_rivals(environment, view),
        engine=await world.deployer.engine(engine_ref(environment, slug, tenant.uid if tenant else "")) if ours else None,
        admin=world.secrets.look(secret.namespace, secret.name, "password", "environment"),
        preview=world.deployer.preview(environment.spec.region, slug, environment.wanted_slug) if slug else "",
        children=_children(environment, view) if environment.deleting else (),
        database=_database(environment, world) if region is not None and region.provider == "Kubernetes" else None,
        contents=contents,
        foreign=foreign,
        holds_id=holds,
        holds_host=_holds_host(environment, slug),
        host_rivals=_host_rivals(environment, slug, view),
    )


def _holds_id(environment: Environment, view: View) -> bool:
    """Is the declared id this environment's, among those of all tenants?"""
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
    return SeenForeign(seen.state, await _failure(endpoint, world) if seen.state == "Present" else None)


async def _failure(endpoint: EngineEndpoint, world: World) -> Stalled | Waiting | Transient | None:
    """Why it cannot be worked with now, or None."""
    try:
        await world.engines.at(endpoint).apps()
    except Halt as halt:
        verdict = halt.verdict
        if isinstance(halt, NotFound) or verdict.reason == "EngineAnswer":
            return Transient("NotAnEngine", f"spec.engine.external.url: {endpoint.url} is no engine: {verdict.message}")
        return verdict
    return None


async def _contents(environment: Environment, world: World) -> Contents | None:
    """Where what nobody declared is to go. The engine is asked first: what is declared meanwhile counts as declared.

    Not while a restore goes on, which brings the engine's contents before their declarations."""
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


def _tenant(environment: Environment, view: View) -> SeenTenant | None:
    namespace = environment.metadata.namespace
    tenant = tenant_of(view, namespace)
    if tenant is None or tenant.status.slug is None:
        return None
    quota = tenant.spec.quota.environments
    return SeenTenant(
        name=tenant.metadata.name,
        uid=tenant.metadata.uid,
        slug=tenant.status.slug,
        deleting=tenant.deleting,
        quota=quota,
        older=_older(environment, view) if quota is not None else 0,
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
    )


def _holds_host(environment: Environment, tenant_slug: str) -> bool:
    status = environment.status
    return (status.slug, status.tenant_slug) == (environment.wanted_slug, tenant_slug)


def _host_rivals(environment: Environment, tenant_slug: str, view: View) -> tuple[Claim, ...]:
    """Slugs of two hyphens in a row, from before they were refused, can give two tenants' environments one host."""
    return tuple(
        Claim(True, other.metadata.creation_timestamp, other.metadata.uid)
        for other in view.list(Environment, by=f"host={host_label(environment.wanted_slug, tenant_slug)}")
        if other.metadata.uid != environment.metadata.uid and other.metadata.creation_timestamp is not None
    )


def _rivals(environment: Environment, view: View) -> tuple[Claim, ...]:
    slug = environment.wanted_slug
    return tuple(
        Claim(other.status.slug == slug, other.metadata.creation_timestamp, other.metadata.uid)
        for other in view.list(Environment, environment.metadata.namespace, by=f"slug={slug}")
        if other.metadata.uid != environment.metadata.uid and other.metadata.creation_timestamp is not None
    )


def _children(environment: Environment, view: View) -> tuple[Child, ...]:
    by = f"environment={environment.metadata.name}"
    return tuple(
        Child(one.held, one.deleting) for kind in CHILDREN for one in view.list(kind, environment.metadata.namespace, by)
    )
