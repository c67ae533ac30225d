"""What a Region wants."""

from __future__ import annotations

from tenantry.kinds.region.decide import Observed, decide
from tenantry.kinds.region.observe import observe
from tests.unit.kinds.factories import DELETED, NOW, Outcome, Surroundings, environment, outcome, region, table, world


@table(
    {
        "is there": (Observed(region(), 0, "Local"), Outcome("Ready")),
        "is in use": (Observed(region(), 3, "Local"), Outcome("Ready")),
        "goes when nobody uses it": (Observed(region(deleting=True), 0, "Local"), Outcome("Gone")),
        "stays while environments use it": (Observed(region(deleting=True), 3, "Local"), Outcome("Waiting InUse")),
    }
)
def test_a_region(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "Host is what the host runs engines on": (Observed(region(), 0, "Kubernetes"), "Kubernetes"),
        "Local is as declared": (Observed(region(spec={"provider": "Local"}), 0, "Kubernetes"), "Local"),
        "Kubernetes is as declared": (Observed(region(spec={"provider": "Kubernetes"}), 0, "Local"), "Kubernetes"),
    }
)
def test_the_provider(seen: Observed, expected: str) -> None:
    assert decide(seen, NOW).status.provider == expected


def test_it_tells_how_many_environments_use_it() -> None:
    assert decide(Observed(region(), 3, "Local"), NOW).status.environments == 3


def test_a_blocked_deletion_tells_by_what_since_when_and_what_resolves_it() -> None:
    deletion = decide(Observed(region(deleting=True), 3, "Local"), NOW).status.deletion
    assert deletion is not None
    (blocker,) = deletion.blockers
    assert (blocker.object, blocker.reason, blocker.since) == ("3 environments", "InUse", DELETED)
    assert blocker.resolve == "delete the environments of this region"


def test_what_blocked_it_is_not_told_any_longer_once_it_is_gone() -> None:
    blocked = decide(Observed(region(deleting=True), 1, "Local"), NOW).status
    later = region(deleting=True).model_copy(update={"status": blocked})
    assert decide(Observed(later, 0, "Local"), NOW).status.deletion is None


async def test_it_counts_the_environments_that_name_it() -> None:
    there = world(environment("dev"), environment("live"), environment("far", spec={"region": "us"}))
    assert (await observe(region("eu"), there)).environments == 2


async def test_it_asks_the_host_what_engines_run_on() -> None:
    assert (await observe(region(), world(around=Surroundings(provider="Kubernetes")))).host_provider == "Kubernetes"
