"""The steps of a move: each is decided by what the two places hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tenantry.kinds.environment.decide import decide, engine_ref
from tenantry.kinds.environment.moving import looks_at
from tenantry.kinds.environment.placement import RegionPlacement, placed
from tenantry.kinds.environment.seen import Observed, SeenRegion, SeenTenant
from tenantry.model.facts import EngineFacts, EngineSpec
from tenantry.model.resource import RESTORING, format_time
from tests.unit.kinds.factories import NOW, PRESENT, Outcome, outcome, running_environment, table, uid_of

REGION = RegionPlacement("", (("first", "pool-1"), ("second", "pool-2")), offered=True)
MOVE = "MOVE_ENVIRONMENT"
WAY = "environment dev: move from pool first to pool second"
KEEP = f"{WAY}: keep a place there, copy the data, then refuse writes for the seconds of the last copy"
COPYING = {"fromPool": "pool-1", "toPool": "pool-2", "step": "Copying", "startedAt": format_time(NOW)}
REMOVING = {**COPYING, "step": "Removing"}


class Case(NamedTuple):
    """here: the engine where the status says; there: what the other place holds. pool: `""` declares a pod of its own."""

    here: EngineFacts | None
    there: EngineFacts | None
    pool: str = "second"
    move: dict[str, Any] | None = None
    options: dict[str, Any] = {}

    def observed(self) -> Observed:
        status = {"move": self.move} if self.move else {}
        declared = {"pool": self.pool} if self.pool else {"placement": "Dedicated"}
        dev = running_environment(spec={"engine": declared}, status=status, **self.options)
        acme = SeenTenant("acme", uid_of("Tenant//acme"), "acme", deleting=False)
        region = SeenRegion("Kubernetes", allowed=True, placement=REGION)
        return Observed(dev, acme, region, (), self.here, PRESENT, "http://dev", elsewhere=self.there)


def engine(pool: str, coming: str = "", status: str = "RUNNING", **altered: Any) -> EngineFacts:
    ref = engine_ref(running_environment(), "acme", uid_of("Tenant//acme"), "acme")
    spec = None if altered else EngineSpec(ref, "eu", "Kubernetes", pool=pool)
    return EngineFacts("e", "engine-dev", status, "http://dev", "", "", spec=spec, pool=pool, coming=coming)


FIRST, SECOND = engine("pool-1"), engine("pool-2")
RESERVED = engine("pool-2", "Reserved", "PENDING")
COPIED = engine("pool-2", "Copied", "PENDING")
GOING_ON = Outcome("Waiting Moving", (), MOVE)


def step(told: str) -> Outcome:
    return Outcome("Waiting Moving", (f"{WAY}: {told}",), MOVE)


SWITCH = step("copy the rest without writes, and serve it there")
CANCEL = step("give it up")


@table(
    {
        "it keeps a place": (Case(FIRST, None), Outcome("Waiting Moving", (KEEP,), MOVE)),
        "it copies": (Case(FIRST, RESERVED), step("copy the data while it serves")),
        "it shows itself before it is felt": (Case(FIRST, COPIED), GOING_ON),
        "it switches": (Case(FIRST, COPIED, move=COPYING), SWITCH),
        "it keeps a place again, if that was lost": (Case(FIRST, None, move=COPYING), Outcome("Waiting Moving", (KEEP,), MOVE)),
        "it sends the host there": (Case(FIRST, engine("pool-2", altered=True), move=COPYING), step("send its host there")),
        "it has arrived": (Case(FIRST, SECOND, move=COPYING), GOING_ON),
        "it removes the old place": (Case(SECOND, FIRST, move=REMOVING), step("remove it from where it was")),
        "it has ended": (Case(SECOND, None, move=REMOVING), Outcome("Ready")),
        "it has ended, and a namespace goes": (Case(SECOND, engine("", status="DELETING"), move=REMOVING), Outcome("Ready")),
        "it is given up": (Case(FIRST, COPIED, "first", COPYING), CANCEL),
        "it is given up with its place lost": (Case(FIRST, None, "first", COPYING), CANCEL),
        "it is given up for an unknown pool": (Case(FIRST, COPIED, "third", COPYING), CANCEL),
        "it has arrived before it could be given up": (Case(FIRST, SECOND, "first", COPYING), GOING_ON),
    }
)
def test_a_move_takes_one_step(seen: Case, expected: Outcome) -> None:
    assert outcome(decide(seen.observed(), NOW)) == expected


TO_POD = {"fromPool": "pool-1", "step": "Copying", "startedAt": format_time(NOW)}
OUT = "environment dev: move from pool first to a pod of its own"


def out(told: str) -> Outcome:
    return Outcome("Waiting Moving", (f"{OUT}: {told}",), MOVE)


def to_pod(there: EngineFacts | None, pool: str = "", move: dict[str, Any] | None = TO_POD) -> Case:
    return Case(FIRST, there, pool, move)


@table(
    {
        "it shows itself before it makes anything": (to_pod(None, move=None), GOING_ON),
        "it makes a pod": (
            to_pod(None),
            out("keep a place there, copy the data, then refuse writes for the seconds of the last copy"),
        ),
        "it makes the rest of a pod": (
            to_pod(engine("", "Reserved", "PENDING", altered=True)),
            out("keep a place there, copy the data, then refuse writes for the seconds of the last copy"),
        ),
        "it waits for the pod": (to_pod(engine("", "Reserved", "PENDING")), GOING_ON),
        "it waits for a pod that finds no node": (to_pod(engine("", "Reserved", "FAILED")), GOING_ON),
        "it waits until an earlier pod is gone": (to_pod(engine("", status="DELETING")), GOING_ON),
        "it copies": (to_pod(engine("", "Reserved")), out("copy the data while it serves")),
        "it switches": (to_pod(engine("", "Copied")), out("copy the rest without writes, and serve it there")),
        "it sends the host there": (to_pod(engine("", altered=True)), out("send its host there")),
        "it has arrived": (to_pod(engine("")), GOING_ON),
        "it has arrived, and the pod starts anew": (to_pod(engine("", status="PENDING")), GOING_ON),
        "it is given up": (to_pod(engine("", "Reserved"), "first"), out("give it up")),
        "it is given up before there is a pod": (to_pod(None, "first"), out("give it up")),
        "it is given up while the pod does not run": (to_pod(engine("", "Reserved", "PENDING"), "first"), out("give it up")),
        "it is given up while the pod goes": (to_pod(engine("", status="DELETING"), "first"), out("give it up")),
    }
)
def test_a_move_to_a_pod_of_its_own_takes_one_step(seen: Case, expected: Outcome) -> None:
    assert outcome(decide(seen.observed(), NOW)) == expected


def test_a_wait_for_a_pod_names_its_reason() -> None:
    pod = replace(engine("", "Reserved", "FAILED"), message="Unschedulable: no room")
    told = decide(to_pod(pod).observed(), NOW).verdict
    assert told.message.endswith("it serves where it is until its new pod runs: Unschedulable: no room")


@pytest.mark.parametrize(
    "seen",
    [
        Case(engine("pool-1", status="PENDING"), None),
        Case(replace(FIRST, missing="its folder is gone"), None),
        Case(FIRST, None, options={"annotations": {RESTORING: "e@1"}}),
        Case(FIRST, None, "first"),
    ],
    ids=["it does not run", "its data is missing", "it is being restored", "it is there"],
)
def test_a_move_does_not_begin(seen: Case) -> None:
    assert decide(seen.observed(), NOW).action != MOVE


def test_the_old_place_stays_until_the_new_one_runs() -> None:
    decision = decide(Case(engine("pool-2", status="FAILED"), FIRST, move=REMOVING).observed(), NOW)
    assert (decision.changes, decision.verdict.reason) == ((), "EngineFailed")
    assert decision.status.move is not None


def test_the_status_shows_the_move_and_then_the_new_place() -> None:
    begun = decide(Case(FIRST, COPIED).observed(), NOW).status
    assert begun.move is not None
    assert (begun.move.from_pool, begun.move.to_pool, begun.move.step) == ("pool-1", "pool-2", "Copying")
    assert begun.engine is not None
    assert begun.engine.pool == "pool-1"
    arrived = decide(Case(FIRST, SECOND, move=COPYING).observed(), NOW).status
    assert arrived.engine is not None
    assert arrived.move is not None
    assert (arrived.engine.pool, arrived.move.step) == ("pool-2", "Removing")
    assert decide(Case(SECOND, None, move=REMOVING).observed(), NOW).status.move is None
    given_up = decide(Case(FIRST, COPIED, "first", COPYING).observed(), NOW)
    assert (given_up.status.move is not None, given_up.done is not None and given_up.done.move is None) == (True, True)


def test_a_deletion_waits_for_an_engine_that_has_arrived() -> None:
    options = {"deleting": True}
    arrived = Case(FIRST, SECOND, move=COPYING, options=options)
    assert decide(arrived.observed(), NOW).status.move is not None
    assert decide(arrived.observed(), NOW).action == MOVE
    assert decide(Case(FIRST, COPIED, move=COPYING, options=options).observed(), NOW).action == "DELETE_ENVIRONMENT"


@table(
    {
        "where it goes": (Case(FIRST, None), "pool-2"),
        "where it goes, until it is given up": (Case(FIRST, None, "first", COPYING), "pool-2"),
        "where it was": (Case(SECOND, None, move=REMOVING), "pool-1"),
        "in the pod where it was": (Case(SECOND, None, move={**REMOVING, "fromPool": None}), ""),
        "nowhere": (Case(FIRST, None, "first"), None),
    }
)
def test_a_pass_looks_at_the_other_place(seen: Case, expected: str | None) -> None:
    declared = seen.observed().environment
    assert looks_at(declared, placed(declared, seen.here, REGION)) == expected
