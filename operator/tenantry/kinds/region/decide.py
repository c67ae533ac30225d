"""What a Region wants: to be there, and to stay while environments use it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.region.spec import Region, RegionStatus
from tenantry.model.decision import Decision
from tenantry.model.resource import Blocker, Deletion
from tenantry.model.verdicts import Gone, Ready, Waiting


@dataclass(frozen=True)
class Observed:
    """environments: how many use it. host_provider: what this host runs engines on."""

    region: Region
    environments: int
    host_provider: str


def decide(seen: Observed, now: datetime) -> Decision[RegionStatus]:
    """Ready while it is declared; gone once no environment uses it."""
    region = seen.region
    provider = seen.host_provider if region.spec.provider == "Host" else region.spec.provider
    status = region.status.model_copy(update={"provider": provider, "environments": seen.environments, "deletion": None})
    if not region.deleting:
        return Decision(status, Ready())
    if seen.environments == 0:
        return Decision(status, Gone())
    since = region.metadata.deletion_timestamp or now
    blocker = Blocker(
        object=f"{seen.environments} environments",
        reason="InUse",
        since=since,
        resolve="delete the environments of this region",
    )
    status = status.model_copy(update={"deletion": Deletion(blockers=(blocker,))})
    return Decision(status, Waiting("InUse", f"{seen.environments} environments use it"))
