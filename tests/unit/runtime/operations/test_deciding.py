"""Decisions about an object's Operations, from what is known of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tenantry.kinds.operation.spec import MESSAGE_LIMIT, Operation
from tenantry.model.changes import DeployEngine, EnsureNamespace
from tenantry.model.decision import Decision
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import RECONCILE_REQUESTED, Ref, Resource, format_time
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.runtime.operations.attribution import Attribution
from tenantry.runtime.operations.deciding import Known, OperationDecision, cause_of, decide_operation, is_cancelled
from tenantry.runtime.operations.documents import queued_document
from tests.unit.kinds.factories import NOW, bound_tenant, edited, table, tenant

ACME = Attribution("acme", "uid-of-acme", "id-of-acme", "id-of-dev")
IN_POD = EngineSpec(EngineRef("tenant-acme", "dev", "dev", "acme", "dev"), "eu", "Kubernetes")
IN_POOL = replace(IN_POD, pool="small")
MAKE = EnsureNamespace("tenant-acme", "acme", tenant().metadata.uid)
REFUSED = Stalled("SlugTaken", "the slug 'acme' is taken")
FLAKY = Transient("Timeout", "the engine did not answer")
OLD, LATE = NOW - timedelta(minutes=1), NOW - timedelta(minutes=16)


def operation(
    cause: str = "1", state: str = "RUNNING", result: str = "PENDING", started: Any = OLD, attempt: int = 0
) -> Operation:
    document = queued_document(
        tenant(), action="CREATE_TENANT", cause=cause, attribution=ACME, requested_by="ann", attempt=attempt
    )
    status = document["status"] | {"status": state, "result": result, "startedOn": format_time(started)}
    return Operation.model_validate(document | {"status": status})


def known(*operations: Operation, of: Resource[Any, Any] | None = None, **given: Any) -> Known:
    return Known(of or tenant(), operations, **given)


def decided(known: Known, verdict: Verdict | None, *changes: Any, action: str = "CREATE_TENANT") -> OperationDecision:
    decision = Decision(known.resource.status, verdict or Ready(), action, changes=changes)
    return decide_operation(known, decision, verdict, NOW)


RUNS, DONE, FAILED = operation(), operation("1", "COMPLETED", "SUCCESS"), operation("1", "COMPLETED", "FAILURE")
CANCELLED, QUEUED = operation("1", "COMPLETED", "CANCELLED"), operation("1", "QUEUED")
ALONE: None = None
LINES: dict[str, Any] = {}
"""The status of an Operation that is left alone, and of one that only gets new lines."""
STARTS = {"status": "RUNNING", "result": "PENDING", "startedOn": format_time(NOW)}
KEPT = {"status": "RUNNING", "startedOn": format_time(NOW)}
SUCCESS = {"status": "COMPLETED", "result": "SUCCESS", "endsOn": format_time(NOW)}


def failure(verdict: Stalled | Transient, by: str) -> dict[str, str]:
    return {
        "status": "COMPLETED", "result": "FAILURE", "code": verdict.reason, "message": verdict.message, "by": by,
        "endsOn": format_time(NOW),
    }  # fmt: skip


@table(
    {
        "the first effect of a new change": (known(), STARTS),
        "a queued one": (known(QUEUED), STARTS),
        "one that an interrupted pass left": (known(RUNS), ALONE),
        "one that this pass has begun": (known(RUNS, current=RUNS), ALONE),
        "a change that failed before": (known(FAILED), ALONE),
        "a change that failed before, asked for again": (
            known(FAILED, of=tenant(annotations={RECONCILE_REQUESTED: "monday"})), STARTS,
        ),
    }
)  # fmt: skip
def test_before_the_first_effect(seen: Known, expected: Any) -> None:
    assert decided(seen, None, MAKE).status == expected


def deployed(*specs: EngineSpec) -> tuple[DeployEngine, ...]:
    return tuple(DeployEngine(spec, Ref("Secret", "tenant-acme", "dev-admin")) for spec in specs)


@table(
    {
        "a new engine": ((known(), IN_POOL), True),
        "a new engine, queued": ((known(QUEUED), IN_POOL), True),
        "a changed engine": ((known(of=edited(bound_tenant())), IN_POOL), True),
        "an engine with a pod": ((known(), IN_POD), False),
        "another effect that may take long": ((known(), IN_POOL, IN_POD), False),
        "an engine that comes from a backup": ((known(), replace(IN_POOL, restoring="dev-1")), False),
        "an Operation that runs": ((known(RUNS), IN_POOL), False),
        "a change that is recorded": ((known(DONE), IN_POOL), False),
        "a change that failed before": ((known(FAILED), IN_POOL), False),
        "a drift of an object that is Ready": ((known(of=bound_tenant()), IN_POOL), False),
        "a request": ((known(cause="tenant-slug-acme-2"), IN_POOL), False),
        "an object that goes": ((known(of=tenant(deleting=True)), IN_POOL), False),
    }
)
def test_in_a_pool_the_operation_is_stored_with_its_result(seen: tuple[Known, *tuple[EngineSpec, ...]], expected: bool) -> None:
    """Only if the next pass records it, should this one be interrupted."""
    told = decided(seen[0], None, MAKE, *deployed(*seen[1:]))
    assert told.deferred is expected
    assert told.status is None or not expected


@table(
    {
        "Ready": ((known(deferred=True), Ready()), SUCCESS),
        "Ready, queued": ((known(QUEUED, deferred=True), Ready()), SUCCESS),
        "Stalled": ((known(deferred=True), REFUSED), failure(REFUSED, "User")),
        "Transient": ((known(deferred=True), FLAKY), KEPT),
        "Transient, queued": ((known(QUEUED, deferred=True), FLAKY), KEPT),
        "Waiting": ((known(deferred=True), Waiting("PoolFull", "m")), KEPT),
    }
)
def test_what_does_not_end_at_once_runs_from_then_on(seen: tuple[Known, Verdict], expected: Any) -> None:
    (deploy,) = deployed(IN_POOL)
    told = decided(seen[0]._replace(steps=(str(MAKE),)), seen[1], MAKE, deploy)
    assert told.status == expected
    assert told.steps == ((str(MAKE), str(deploy)) if expected == KEPT else ())


@table(
    {
        "Ready, nothing known": ((known(), Ready()), SUCCESS),
        "Ready, it runs": ((known(RUNS), Ready()), SUCCESS),
        "Ready, it was done before": ((known(DONE), Ready()), ALONE),
        "Ready, it was done before, and has a step": ((known(DONE, steps=("a step",)), Ready()), SUCCESS),
        "Gone": ((known(RUNS, current=RUNS), Gone()), SUCCESS),
        "Stalled": ((known(), REFUSED), failure(REFUSED, "User")),
        "Stalled again": ((known(FAILED), REFUSED), ALONE),
        "Stalled by the operator": ((known(), replace(REFUSED, by="Operator")), failure(REFUSED, "Operator")),
        "Transient, nothing known": ((known(), FLAKY), ALONE),
        "Transient, after a step": ((known(steps=("a step",)), FLAKY), KEPT),
        "Transient, queued": ((known(QUEUED), FLAKY), KEPT),
        "Transient, it runs": ((known(RUNS), FLAKY), LINES),
        "Transient, past the deadline": ((known(operation(started=LATE)), FLAKY), failure(FLAKY, "Operator")),
        "Waiting without a step": ((known(RUNS), Waiting("EngineStarting", "m")), ALONE),
        "Waiting after a step": ((known(steps=("a step",)), Waiting("EngineStarting", "m")), KEPT),
        "Waiting, begun": ((known(RUNS, current=RUNS), Waiting("EngineStarting", "m")), LINES),
    }
)
def test_a_pass_that_ends(seen: tuple[Known, Verdict], expected: Any) -> None:
    assert decided(*seen).status == expected


@table(
    {
        "Stalled": (REFUSED, ["ERROR SlugTaken: the slug 'acme' is taken"]),
        "Transient": (FLAKY, ["WARNING Timeout: the engine did not answer"]),
        "Waiting": (Waiting("EngineFailed", "m"), ["INFO waits: EngineFailed: m"]),
        "Waiting as expected": (Waiting("EngineStarting", "m", expected=True), []),
        "Ready": (Ready(), []),
    }
)
def test_lines_of_the_log(seen: Verdict, expected: list[str]) -> None:
    told = decided(known(RUNS, current=RUNS), seen)
    assert [f"{line.level} {line.text}" for line in told.lines] == expected


def test_a_message_that_is_too_long_is_cut() -> None:
    told = decided(known(), Stalled("Invalid", "x" * (MESSAGE_LIMIT + 1)))
    assert told.status is not None
    assert len(told.status["message"]) == MESSAGE_LIMIT


def done(resource: Any, action: str, subject: str) -> Any:
    return "Done"


def wanted(resource: Any, action: str, subject: str) -> Any:
    return "Wanted"


@table(
    {
        "overtaken": ((known(RUNS, of=edited(tenant())), Ready()), [("1", "CANCELLED")]),
        "carried out with the newer one": ((known(RUNS, of=edited(tenant()), standing=done), Ready()), [("1", "SUCCESS")]),
        "still wanted": ((known(RUNS, of=edited(tenant()), standing=wanted), Ready()), []),
        "still wanted, and refused": ((known(RUNS, of=edited(tenant()), standing=wanted), REFUSED), [("1", "FAILURE")]),
        "the object goes": ((known(RUNS, of=tenant(deleting=True), standing=wanted), Ready()), [("1", "CANCELLED")]),
        "ended already": ((known(DONE, of=edited(tenant())), Ready()), []),
        "its own": ((known(RUNS), Ready()), []),
    }
)
def test_older_ones_end(seen: tuple[Known, Verdict], expected: list[tuple[str, str]]) -> None:
    assert [(each.operation.spec.cause, each.status["result"]) for each in decided(*seen).superseded] == expected


@table(
    {
        "a new object": (known(), "1"),
        "an edit": (known(of=edited(bound_tenant())), "2"),
        "a deletion": (known(of=tenant(deleting=True)), "delete"),
        "left behind": (known(RUNS, of=bound_tenant()), "1"),
        "decided before": (known(cause="tenant-slug-acme-2"), "tenant-slug-acme-2"),
    }
)
def test_the_cause_of_a_pass(seen: Known, expected: str) -> None:
    assert cause_of(seen, Decision(seen.resource.status, Ready()), NOW) == expected


def drifts(*operations: Operation, after: timedelta = timedelta()) -> str:
    seen = known(*operations, of=bound_tenant())
    return cause_of(seen, Decision(seen.resource.status, Ready(), changes=(MAKE,)), NOW + after)


@pytest.mark.parametrize(
    ("ended", "same"),
    [(("RUNNING", "PENDING"), True), (("COMPLETED", "CANCELLED"), True), (("COMPLETED", "SUCCESS"), False)],
)
def test_a_drift_is_another_one_once_it_was_corrected(ended: tuple[str, str], same: bool) -> None:
    first = drifts()
    assert (drifts(operation(first, *ended), after=timedelta(minutes=1)) == first) is same


@table(
    {
        "cancelled": ((CANCELLED,), True),
        "cancelled, then tried again": ((CANCELLED, operation("1", "COMPLETED", "FAILURE", attempt=1)), False),
        "failed": ((FAILED,), False),
        "another change": ((operation("2", "COMPLETED", "CANCELLED"),), False),
    }
)
def test_what_counts_as_cancelled(seen: tuple[Operation, ...], expected: bool) -> None:
    assert is_cancelled(known(*seen, cause="1")) is expected


def test_a_decision_changes_nothing_that_it_was_given() -> None:
    seen = known(RUNS, of=edited(tenant()))
    before = seen.resource.model_copy(deep=True)
    assert decided(seen, REFUSED) == decided(seen, REFUSED)
    assert seen.resource == before
