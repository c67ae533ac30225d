"""Small builders of what decide and observe look at, and the shape in which a table shows the outcome."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar, cast

import pytest

from tenantry.adapters.overlay.packages import PlannedSources
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.package.spec import Package
from tenantry.kinds.region.spec import Region
from tenantry.kinds.registry import TYPES
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.claims import Claim
from tenantry.model.decision import Decision
from tenantry.model.facts import (
    EngineApp,
    EngineEndpoint,
    EngineFacts,
    EngineIdentity,
    EngineIdentityProvider,
    EngineRef,
    MigrationStep,
    PackageFacts,
    SecretFacts,
)
from tenantry.model.resource import SYSTEM_NAMESPACE, TENANT_LABEL, Resource, format_time
from tenantry.ports import EngineViews, SourceView, World
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.following import TrackedView

R = TypeVar("R", bound=Resource[Any, Any])
Fields = Mapping[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BORN = NOW - timedelta(hours=1)
DELETED = NOW - timedelta(minutes=5)
SHA = "ab" * 32
PRESENT = SecretFacts("Present", "first-mark")
CHANGED = SecretFacts("Present", "second-mark")
MISSING = SecretFacts("Missing")

OLDER = BORN - timedelta(minutes=1)
YOUNGER = BORN + timedelta(minutes=1)


def rival(*, held: bool = False, since: datetime = BORN, uid: str = "ffffffff") -> Claim:
    """Another object's claim; as it stands, a tie that the other loses by its uid."""
    return Claim(held, since, uid)


class Outcome(NamedTuple):
    """A decision as a table shows it. ends: the verdict and its reason; wants: the changes' lines, in order."""

    ends: str
    wants: tuple[str, ...] = ()
    action: str = ""
    subject: str = ""
    request: str = ""


def outcome(decision: Decision[Any]) -> Outcome:
    """The outcome of a decision."""
    verdict = decision.verdict
    name = type(verdict).__name__
    ends = name if name in ("Ready", "Gone") else f"{name} {verdict.reason}"
    return Outcome(ends, tuple(map(str, decision.changes)), decision.action, decision.subject, decision.request)


def table(rows: Mapping[str, tuple[Any, Any]]) -> pytest.MarkDecorator:
    """A test that is called with `seen` and `expected` for each row."""
    return pytest.mark.parametrize(("seen", "expected"), rows.values(), ids=rows.keys())


def uid_of(name: str) -> str:
    """The uid of the object of that name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def made(
    type_: type[R],
    name: str,
    namespace: str = "",
    *,
    spec: Fields | None = None,
    status: Fields | None = None,
    ready: bool = False,
    deleting: bool = False,
    born: datetime = BORN,
    labels: Fields | None = None,
    annotations: Fields | None = None,
    generation: int = 1,
) -> R:
    """An object as stored. ready: it was Ready at this generation; otherwise this generation is not seen yet."""
    condition = {"type": "Ready", "status": "True", "reason": "Succeeded"}
    seen = {"observedGeneration": generation, "conditions": [condition]} if ready else {}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid_of(f"{type_.KIND}/{namespace}/{name}"),
        "resourceVersion": "7",
        "generation": generation,
        "creationTimestamp": format_time(born),
        "labels": labels or {},
        "annotations": annotations or {},
    }
    if deleting:
        metadata["deletionTimestamp"] = format_time(DELETED)
    return type_.model_validate({"metadata": metadata, "spec": spec or {}, "status": seen | dict(status or {})})


def edited(resource: R, **spec: Any) -> R:
    """The same object at its next generation, which nobody has seen yet; its status is that of the last one."""
    metadata = resource.metadata.model_copy(update={"generation": resource.metadata.generation + 1})
    body = resource.to_json()
    return type(resource).model_validate({**body, "metadata": metadata.to_json(), "spec": body["spec"] | spec})


def telling(resource: R, **status: Any) -> R:
    """The same object with those fields in its status."""
    body = resource.to_json()
    return type(resource).model_validate({**body, "status": body["status"] | status})


def region(name: str = "eu", **options: Any) -> Region:
    """A region that is open to all."""
    return made(Region, name, **options)


def tenant(name: str = "acme", **options: Any) -> Tenant:
    """A tenant."""
    return made(Tenant, name, **options)


def bound_tenant(name: str = "acme", *, spec: Fields | None = None, status: Fields | None = None, **options: Any) -> Tenant:
    """A tenant that is Ready and owns its namespace."""
    namespace = {"name": f"tenant-{name}", "uid": uid_of(f"Namespace//tenant-{name}")}
    told = {"phase": "READY", "slug": (spec or {}).get("slug", name), "namespace": namespace} | dict(status or {})
    return made(Tenant, name, spec=spec, status=told, ready=True, **options)


def namespace(name: str = "tenant-acme", consents: str = "acme", **options: Any) -> Namespace:
    """A namespace that carries a tenant's label."""
    return made(Namespace, name, labels={TENANT_LABEL: consents} if consents else {}, **options)


def environment(name: str = "dev", *, spec: Fields | None = None, **options: Any) -> Environment:
    """An environment of acme in the region eu."""
    return made(Environment, name, "tenant-acme", spec={"region": "eu"} | dict(spec or {}), **options)


def running_environment(name: str = "dev", *, status: Fields | None = None, **options: Any) -> Environment:
    """An environment that is Ready, its engine RUNNING."""
    engine = {"id": "e", "name": f"engine-{name}", "status": "RUNNING", "url": f"http://here/e/acme/{name}"}
    told = {"phase": "READY", "slug": name, "tenantSlug": "acme", "engine": engine} | dict(status or {})
    return environment(name, status=told, ready=True, **options)


EXTERNAL = {"engine": {"external": {"url": "https://there.example", "adminSecretRef": {"name": "there"}}}}
THERE_SECRET = ("tenant-acme", "there", "password", "environment")
"""As Surroundings.secrets know the credential of EXTERNAL."""


def foreign_environment(status: str = "RUNNING", url: str = "https://there.example", **spec: Any) -> Environment:
    """An environment with an engine of others, which was allowed there; it is being deleted where its engine is DELETING."""
    engine = {"id": "e", "name": "engine-dev", "status": status, "url": url}
    phase = "DELETING" if status == "DELETING" else "READY"
    told = {"phase": phase, "slug": "dev", "url": url, "engine": engine}
    return environment(status=told, spec=EXTERNAL | spec, deleting=status == "DELETING", ready=status == "RUNNING")


def package(version: str = "1.0.0", namespace: str = "tenant-acme", *, spec: Fields | None = None, **options: Any) -> Package:
    """A package of the app crm, its bytes known by SHA."""
    wanted = {"app": "crm", "version": version, "sha256": SHA} | dict(spec or {})
    return made(Package, f"crm-{version.replace('.', '-')}", namespace, spec=wanted, **options)


def app(version: str | None = "1.0.0", *, spec: Fields | None = None, **options: Any) -> App:
    """The app crm in the environment dev. version None: uninstalled."""
    wanted = {"environment": "dev", "app": "crm"} | ({"version": version} if version else {})
    return made(App, "dev.crm", "tenant-acme", spec=wanted | dict(spec or {}), **options)


def identity(name: str = "ann", *, spec: Fields | None = None, **options: Any) -> Identity:
    """A local user of dev."""
    wanted = {"environment": "dev", "username": name, "passwordSecretRef": {"name": name}}
    return made(Identity, name, "tenant-acme", spec=wanted | dict(spec or {}), **options)


def provider(name: str = "corp", *, spec: Fields | None = None, **options: Any) -> IdentityProvider:
    """An external issuer of dev."""
    wanted = {"environment": "dev", "issuerUrl": "https://issuer.example", "clientId": "dev"}
    return made(IdentityProvider, name, "tenant-acme", spec=wanted | dict(spec or {}), **options)


def user(name: str = "root", *, spec: Fields | None = None, namespace: str = SYSTEM_NAMESPACE, **options: Any) -> User:
    """A SUPERUSER of the platform."""
    wanted = {"username": name, "role": "SUPERUSER", "passwordSecretRef": {"name": name}}
    return made(User, name, namespace, spec=wanted | dict(spec or {}), **options)


def facts(version: str = "1.0.0", app_id: str = "crm") -> PackageFacts:
    """The facts of a package's bytes."""
    return PackageFacts(app_id, version, "CRM", "Example Ltd", SHA, size=1024, tables=2, symbols=True, roles=("reader",))


ENGINE = EngineEndpoint(environment().id, "http://here/e/acme/dev")
"""The engine of the environment dev."""


@dataclass
class Engine:
    """ports.EngineView: an engine that holds what it is given."""

    held_apps: tuple[EngineApp, ...] = ()
    users: tuple[EngineIdentity, ...] = ()
    providers: tuple[EngineIdentityProvider, ...] = ()
    migrations: Mapping[tuple[str, str], tuple[MigrationStep, ...]] = field(default_factory=dict)
    unused: timedelta | None = None

    async def apps(self) -> tuple[EngineApp, ...]:
        return self.held_apps

    async def apps_with_rows(self) -> frozenset[str]:
        return frozenset(app.id for app in self.held_apps if app.persisted)

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        return self.migrations[app, version]

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        return tuple(one for one in self.users if one.answers_to(named))

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        return self.providers


@dataclass
class Surroundings:
    """The other ports of a World: secrets by (namespace, name, key, purpose), engines by environment id, packages by tenant."""

    secrets: Mapping[tuple[str, str, str, str], SecretFacts] = field(default_factory=dict)
    engines: Mapping[str, Engine] = field(default_factory=dict)
    packages: Mapping[tuple[str, str], PackageFacts] = field(default_factory=dict)
    deployed: Mapping[EngineRef, EngineFacts] = field(default_factory=dict)
    provider: str = "Local"
    sources: SourceView = field(default_factory=PlannedSources)

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        return self.secrets.get((namespace, name, key, for_kind), MISSING)

    def at(self, endpoint: EngineEndpoint) -> Engine:
        return self.engines[endpoint.environment_id]

    async def unused(self, endpoint: EngineEndpoint) -> timedelta | None:
        return self.engines[endpoint.environment_id].unused

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return self.packages.get((tenant, sha256))

    async def engine(self, ref: EngineRef, at: str | None = None) -> EngineFacts | None:
        return self.deployed.get(ref) if at is None else None

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        return f"http://here/e/{tenant_slug}/{slug}"


def world(*resources: Resource[Any, Any], around: Surroundings | None = None) -> World:
    """The world that observe sees: those objects in a real cache, and the ports around them."""
    cache = Cache(TYPES)
    for resource in resources:
        cache.absorb({"apiVersion": "v1", "kind": resource.KIND} | resource.to_json())
    around = around or Surroundings()
    return World(TrackedView(cache), around, around, cast(EngineViews, around), around, around.sources)
