"""What a Region wants."""

from __future__ import annotations

from tenantry.kinds.region.decide import Observed, decide
from tenantry.kinds.region.observe import observe
from tenantry.kinds.region.spec import Region
from tests.unit.kinds.factories import (
    DELETED,
    NOW,
    Outcome,
    Surroundings,
    environment,
    outcome,
    region,
    table,
    telling,
    tenant,
    world,
)


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


CLOSED = region(spec={"tenants": ["acme", "umbra"]})
FIRST = [{"name": "acme", "uid": "first"}]
BOUND, TAKEN_OUT, OPENED = (telling(each, tenants=FIRST) for each in (CLOSED, region(spec={"tenants": ["umbra"]}), region()))


@table(
    {
        "means nobody while nobody has the name": ((CLOSED, {}), {}),
        "means who first has it": ((CLOSED, {"acme": "first"}), {"acme": "first"}),
        "means the same while nobody has it": ((BOUND, {}), {"acme": "first"}),
        "means the same when another has it": ((BOUND, {"acme": "second", "umbra": "u"}), {"acme": "first", "umbra": "u"}),
        "means nobody once it is taken out": (
            (TAKEN_OUT, {"acme": "second"}),
            {},
        ),
        "means nobody where all may come": (
            (OPENED, {"acme": "second"}),
            {},
        ),
    }
)
def test_a_name_of_a_tenant_that_may_come(seen: tuple[Region, dict[str, str]], expected: dict[str, str]) -> None:
    decision = decide(Observed(seen[0], 0, "Local", seen[1]), NOW)
    assert {each.name: each.uid for each in decision.status.tenants} == expected


@table(
    {
        "all, where none is named": ((region(), "acme", "any"), True),
        "nobody who is not named": ((CLOSED, "globex", "any"), False),
        "who is named and bound": ((BOUND, "acme", "first"), True),
        "who is named and not seen yet": ((BOUND, "umbra", "any"), True),
        "not a later one of the name": ((BOUND, "acme", "second"), False),
    }
)
def test_a_region_is_open_to(seen: tuple[Region, str, str], expected: bool) -> None:
    assert seen[0].allows(seen[1], seen[2]) is expected


def test_it_says_which_name_is_another_tenants_by_now() -> None:
    verdict = decide(Observed(BOUND, 0, "Local", {"acme": "second"}), NOW).verdict
    assert "acme may not use it" in verdict.message
    assert decide(Observed(BOUND, 0, "Local", {"acme": "first"}), NOW).verdict.message == ""


async def test_it_looks_at_the_tenants_that_it_names() -> None:
    assert (await observe(CLOSED, world(tenant(), tenant("globex")))).tenants == {"acme": tenant().metadata.uid}
