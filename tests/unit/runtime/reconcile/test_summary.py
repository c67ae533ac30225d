"""Verdicts as conditions in the status."""

from __future__ import annotations

from typing import Any

from tenantry.model.resource import RECONCILE_REQUESTED, LastOperation, format_time
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.runtime.reconcile.summary import MESSAGE, current, summarise
from tests.unit.kinds.factories import NOW, bound_tenant, edited, table, telling, tenant

EARLIER = "2026-01-01T00:00:00Z"
OPERATION = LastOperation(id="op-1", action="CREATE_TENANT", status="COMPLETED", result="SUCCESS")
ASKED = {RECONCILE_REQUESTED: "monday"}


def conditions(verdict: Verdict) -> dict[str, str]:
    """Type and status of each, with its reason."""
    written = summarise(tenant(), tenant().status, verdict, None, NOW)
    return {one["type"]: f"{one['status']} {one['reason']}" for one in written["conditions"]}


@table(
    {
        "Ready": (Ready(), {"Ready": "True Succeeded"}),
        "Waiting": (Waiting("InUse", "m"), {"Ready": "False InUse", "Reconciling": "True InUse"}),
        "Transient": (Transient("Timeout", "m"), {"Ready": "False Timeout", "Reconciling": "True Timeout"}),
        "Stalled": (Stalled("SlugTaken", "m"), {"Ready": "False SlugTaken", "Stalled": "True SlugTaken"}),
        "Gone": (Gone(), {"Ready": "False Deleted", "Reconciling": "True Deleted"}),
    }
)
def test_conditions_are_those_of_kstatus(seen: Verdict, expected: dict[str, str]) -> None:
    assert conditions(seen) == expected


def test_an_object_that_nobody_has_seen_does_not_look_done() -> None:
    assert tenant().status.observed_generation == -1
    assert not tenant().ready


def test_a_status_is_of_the_generation_that_was_looked_at() -> None:
    written = summarise(edited(bound_tenant()), tenant().status, Ready(), None, NOW)
    assert written["observedGeneration"] == 2
    assert written["conditions"][0]["observedGeneration"] == 2


def ready_since(was: str) -> Any:
    """The lastTransitionTime of the condition Ready, which had that status before."""
    before = [{"type": "Ready", "status": was, "reason": "Before", "lastTransitionTime": EARLIER}]
    return summarise(telling(tenant(), conditions=before), tenant().status, Ready(), None, NOW)["conditions"][0][
        "lastTransitionTime"
    ]


def test_a_condition_keeps_its_time_as_long_as_its_status() -> None:
    assert ready_since("True") == EARLIER
    assert ready_since("False") == format_time(NOW)


def test_the_last_operation_stays_until_there_is_another() -> None:
    before = telling(tenant(), lastOperation=OPERATION.to_json())
    assert summarise(before, before.status, Ready(), None, NOW)["lastOperation"]["id"] == "op-1"
    later = OPERATION.model_copy(update={"id": "op-2"})
    assert summarise(before, before.status, Ready(), later, NOW)["lastOperation"]["id"] == "op-2"


@table(
    {
        "answered by success": (Ready(), "monday"),
        "answered by a refusal": (Stalled("SlugTaken", "m"), "monday"),
        "answered by what it waits for": (Waiting("InUse", "m"), "monday"),
        "still open when the pass failed in passing": (Transient("Timeout", "m"), "sunday"),
    }
)
def test_a_request_for_a_reconcile_is(seen: Verdict, expected: str) -> None:
    asked = telling(tenant(annotations=ASKED), lastHandledReconcileAt="sunday")
    assert summarise(asked, asked.status, seen, None, NOW)["lastHandledReconcileAt"] == expected


def test_a_message_is_cut_where_the_api_server_would_refuse_it() -> None:
    written = summarise(tenant(), tenant().status, Stalled("TooLong", "x" * (MESSAGE + 1)), None, NOW)
    assert {len(one["message"]) for one in written["conditions"]} == {MESSAGE}


def test_what_is_written_again_is_what_is_stored() -> None:
    first = summarise(bound_tenant(), bound_tenant().status, Ready(), OPERATION, NOW)
    stored = telling(bound_tenant(), **first)
    assert summarise(stored, stored.status, Ready(), None, NOW) == current(stored)
