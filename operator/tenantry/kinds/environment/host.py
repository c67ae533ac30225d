"""The host of an environment: why it cannot have one, and the loss of one that another environment holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.environment.spec import Environment, EnvironmentStatus
from tenantry.model.claims import Claim, claim_of, slug_refusal, wins
from tenantry.model.facts import EngineRoute
from tenantry.model.verdicts import Stalled


@dataclass(frozen=True)
class HostClaim:
    """The host that an environment wants, and the others that want it. holds: its own status carries it.

    route: `slug` of the environment and of its tenant, the latter `""` while the tenant has lost its own to another tenant;
    rivals: those in its tenant that want its slug; host_rivals: those of all tenants that hold its host.
    """

    environment: Environment
    route: EngineRoute
    holds: bool
    rivals: tuple[Claim, ...]
    host_rivals: tuple[Claim, ...]

    def refusal(self, now: datetime) -> Stalled | None:
        """Return why it cannot have that host. The holder is not named: it may be another tenant's secret."""
        environment, slug = self.environment, self.route.slug
        if not self.route.tenant_slug:
            told = f"the host of {slug!r} is not available: the tenant lost its slug to another tenant; give the tenant another"
            return Stalled("TenantSlugTaken", told)
        mine = claim_of(environment, environment.status.slug == slug, now)
        if refusal := slug_refusal(mine, slug, self.rivals, "already used by another environment of this tenant"):
            return refusal
        if not wins(mine._replace(held=self.holds), self.host_rivals):
            return Stalled("HostTaken", f"spec.slug: the host of {slug!r} is not available; choose another")
        return None

    def lost(self, route: EngineRoute, now: datetime) -> bool:
        """Return True if that route is the one that another environment holds."""
        refusal = self.refusal(now)
        match refusal.reason if refusal is not None else "":
            case "TenantSlugTaken":
                return True
            case "SlugTaken":
                return route.slug == self.route.slug
            case "HostTaken":
                return route == self.route
        return False


def without_host(environment: Environment, status: EnvironmentStatus) -> EnvironmentStatus:
    """Return the status of an environment that another took the slug from. The URL of an engine of ours leads to the other."""
    lost = status.model_copy(update={"slug": None})
    if environment.spec.engine.external is not None:
        return lost
    engine = status.engine and status.engine.model_copy(update={"url": ""})
    return lost.model_copy(update={"url": None, "engine": engine})
