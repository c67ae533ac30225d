"""Observe the inputs of an App."""

from __future__ import annotations

from collections.abc import Mapping

from tenantry.kinds.app.decide import Observed, SeenPackage, wanted_versions
from tenantry.kinds.app.spec import App
from tenantry.kinds.drift import policy_of
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.package.spec import Package
from tenantry.kinds.region.spec import Region
from tenantry.kinds.signatures import refusal
from tenantry.kinds.tenancy import engine_of, sleeping_since, tenant_of
from tenantry.model.facts import EngineApp, MigrationStep
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.ports import EngineView, View, World


async def observe(app: App, world: World) -> Observed:
    """Its environment, what the engine has of it, and the packages of the versions that it wants."""
    environment = world.resources.get(Environment, app.metadata.namespace, app.spec.environment)
    state, endpoint = engine_of(environment, world.secrets)
    held: EngineApp | None = None
    steps: tuple[MigrationStep, ...] = ()
    if endpoint is not None:
        engine = world.engines.at(endpoint)
        held = next((one for one in await engine.apps() if one.id == app.spec.app), None)
        steps = await _steps(app, held, engine)
    keys = _keys(environment, world.resources)
    packages = _packages(app, world.resources)
    refused = await _unsigned(packages, keys, world) if keys else {}
    asleep = sleeping_since(environment)
    return Observed(app, state, endpoint, held, packages, steps, policy_of(environment), refused, asleep)


def _keys(environment: Environment | None, view: View) -> tuple[list[str], ...]:
    """The lists of keys of which one each must have signed: the region's, and the environment's."""
    if environment is None:
        return ()
    region = view.get(Region, "", environment.spec.region)
    lists = (region.spec.package_keys if region else None, environment.spec.package_keys)
    return tuple(keys for keys in lists if keys)


async def _unsigned(packages: Mapping[str, SeenPackage], keys: tuple[list[str], ...], world: World) -> dict[str, str]:
    """Return the reasons why packages lack a required signature, by version."""
    found: dict[str, str] = {}
    for version, package in packages.items():
        facts = await world.packages.inspect(package.tenant, package.sha256) if package.ready else None
        if facts is not None:
            refusals = (refusal(package.signature, facts.blake2b, listed) for listed in keys)
            why = next(filter(None, refusals), "")
            if why:
                found[version] = why
    return found


async def _steps(app: App, held: EngineApp | None, engine: EngineView) -> tuple[MigrationStep, ...]:
    wanted = app.spec.version
    if app.deleting or held is None or wanted is None or wanted == held.version or wanted not in held.versions:
        return ()
    return await engine.steps(app.spec.app, wanted)


def _packages(app: App, view: View) -> dict[str, SeenPackage]:
    """By version: the tenant's own package, else the shared one; one that is being deleted only where there is no other."""
    tenant = tenant_of(view, app.metadata.namespace)
    found: dict[str, SeenPackage] = {}
    for version in wanted_versions(app):
        by = f"package={app.spec.app}@{version}"
        own = _usable(view, app.metadata.namespace, by)
        shared = _usable(view, SYSTEM_NAMESPACE, by)
        choices = [(own, tenant.metadata.name)] if own is not None and tenant is not None else []
        choices += [(shared, "")] if shared is not None else []
        for package, holder in sorted(choices, key=lambda choice: choice[0].deleting)[:1]:
            found[version] = _seen(package, holder)
    return found


def _usable(view: View, namespace: str, by: str) -> Package | None:
    packages = sorted(view.list(Package, namespace, by), key=lambda package: package.deleting)
    return next(filter(_serves, packages), packages[0] if packages else None)


def _serves(package: Package) -> bool:
    """Can it be installed? A package that is being deleted has its bytes until no App uses it."""
    return package.ready or (package.deleting and package.status.claimed)


def _seen(package: Package, tenant: str) -> SeenPackage:
    ready = package.status.condition("Ready")
    message = ready.message if ready else "not reconciled yet"
    return SeenPackage(tenant, package.spec.sha256 or "", _serves(package), message, package.spec.signature or "")
