"""The inputs of a decision about an Environment."""

from __future__ import annotations

from dataclasses import dataclass

from tenantry.kinds.environment.children import Child
from tenantry.kinds.environment.placement import NOWHERE, RegionPlacement, placed
from tenantry.kinds.environment.sleeping import AWAKE, UNKNOWN, Sleep, Use
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.environment.unmanaged import Contents
from tenantry.model.claims import Claim
from tenantry.model.facts import EngineFacts, SecretFacts
from tenantry.model.quotas import UNLIMITED, Quotas
from tenantry.model.verdicts import Stalled, Transient, Waiting


@dataclass(frozen=True)
class SeenTenant:
    """The tenant of the namespace. slug: `""` once lost to another. older: how many older environments it has, if asked."""

    name: str
    uid: str
    slug: str
    deleting: bool
    quota: int | None = None
    older: int = 0
    limits: Quotas = UNLIMITED


@dataclass(frozen=True)
class SeenRegion:
    """The region that is asked for. provider: `Local` or `Kubernetes`. deleting: it serves those who are in it, and no others.

    remote: its engines are in another cluster.
    """

    provider: str
    allowed: bool
    images: tuple[str, ...] | None = None
    sizes: tuple[str, ...] | None = None
    external: bool = False
    deleting: bool = False
    placement: RegionPlacement = NOWHERE
    remote: bool = False

    def refusal(self, environment: Environment) -> Stalled | None:
        """Return the refusal of an engine that the rules of the region do not allow, or None."""
        engine = environment.spec.engine
        if engine.external is not None and not self.external:
            return Stalled("ExternalNotAllowed", "spec.engine.external: the region does not allow external engines")
        if engine.size is not None and self.sizes is not None and engine.size not in self.sizes:
            return Stalled("SizeNotAllowed", f"spec.engine.size: {engine.size!r} is none of {', '.join(self.sizes)}")
        if engine.version is not None and self.images is not None and engine.version not in self.images:
            return Stalled("VersionNotAllowed", f"spec.engine.version: {engine.version!r} is none of {', '.join(self.images)}")
        return None


@dataclass(frozen=True)
class SeenForeign:
    """The engine of others that is asked for. failure: why it cannot be used."""

    credential: SecretFacts
    failure: Stalled | Waiting | Transient | None = None


@dataclass(frozen=True)
class Observed:
    """preview: the URL that the engine has or will have. children: looked at only while the environment is being deleted.

    database: the Secret with the URL of the database that is asked for.
    contents: what the engine holds, looked at only where what nobody declared is to be removed.
    elsewhere: the engine in the other place of its move.
    foreign: the engine of others that is asked for; None where the region does not allow it.
    host_rivals: environments of all tenants that hold the host this one wants; holds_host: this one holds it.
    holds_id: False where `spec.id` is the id of another environment, of whichever tenant.
    use: of the engine, looked at only where it may sleep. sleep: what is decided about that, before all else.
    """

    environment: Environment
    tenant: SeenTenant | None
    region: SeenRegion | None
    rivals: tuple[Claim, ...]
    engine: EngineFacts | None
    admin: SecretFacts
    preview: str
    children: tuple[Child, ...] = ()
    database: SecretFacts | None = None
    contents: Contents | None = None
    foreign: SeenForeign | None = None
    holds_id: bool = True
    holds_host: bool = False
    host_rivals: tuple[Claim, ...] = ()
    elsewhere: EngineFacts | None = None
    use: Use = UNKNOWN
    sleep: Sleep = AWAKE

    @property
    def remote(self) -> bool:
        """Return True if the engine is in another cluster than the platform."""
        return self.region is not None and self.region.remote

    @property
    def wakes_on_request(self) -> bool:
        """Return True if requests to the engine's URL wake it."""
        return self.environment.wakes_on_request and not self.remote

    @property
    def sleeps_otherwise(self) -> str:
        """Return the place of an engine that does not sleep as declared, `""` for one in a pod of its own."""
        if self.environment.spec.engine.external is not None:
            return "the engine is run by others"
        if self.region is None or self.region.provider != "Kubernetes":
            return "the engines of this host sleep by themselves while nobody uses them"
        pooled = placed(self.environment, self.engine, self.region.placement).pool
        return "the engine is in a pool, where it sleeps by itself while nobody uses it" if pooled else ""
