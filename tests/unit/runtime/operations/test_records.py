"""The records of one pass: named, opened, resumed, superseded, cancelled and settled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenantry.api.writing.queueing import queue
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.changes import Change, EnsureNamespace, InstallApp
from tenantry.model.decision import Decision
from tenantry.model.facts import Caller
from tenantry.model.resource import RECONCILE_REQUESTED, REQUESTED_BY, Resource
from tenantry.model.verdicts import Gone, Invalid, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.runtime.operations.documents import LOG_LIMIT, operation_name, queued_document
from tests.unit.kinds.factories import ENGINE, app, bound_tenant, edited, table, telling, tenant
from tests.unit.runtime.operations.book import ACME, ADMISSION, Book

MAKE = EnsureNamespace("tenant-acme", "acme", tenant().metadata.uid)
INSTALL = InstallApp(ENGINE, "crm", "1.0.0")
LATE = timedelta(minutes=16)
FLAKY = Transient("Timeout", "the engine did not answer")


@pytest.fixture
def book() -> Book:
    return Book()


DONE, FAILED, GONE_ON = ("COMPLETED", "SUCCESS"), ("COMPLETED", "FAILURE"), ("RUNNING", "PENDING")


@table(
    {
        "Ready with changes": ((Ready(), (MAKE,)), [("CREATE_TENANT", "1", *DONE)]),
        "Ready without any": ((Ready(), ()), [("CREATE_TENANT", "1", *DONE)]),
        "Stalled": ((Stalled("SlugTaken", "m"), ()), [("CREATE_TENANT", "1", *FAILED)]),
        "Waiting with changes": ((Waiting("EngineStarting", "m"), (MAKE,)), [("CREATE_TENANT", "1", *GONE_ON)]),
        "Waiting without any": ((Waiting("RegionNotFound", "m"), ()), []),
        "Transient with changes": ((FLAKY, (MAKE,)), [("CREATE_TENANT", "1", *GONE_ON)]),
        "Transient without any": ((FLAKY, ()), []),
    }
)
async def test_a_new_object_s_pass_that_ends(book: Book, seen: Any, expected: Any) -> None:
    verdict, changes = seen
    await book.passes(tenant(), verdict, *changes)
    assert book.told == expected


async def test_a_ready_object_that_wants_nothing_leaves_none(book: Book) -> None:
    await book.passes(bound_tenant(), Ready(), action="")
    assert book.told == []


async def test_the_same_pass_again_leaves_no_second_one(book: Book) -> None:
    for _ in range(3):
        await book.passes(tenant(), Stalled("SlugTaken", "m"))
    assert book.told == [("CREATE_TENANT", "1", *FAILED)]


async def test_what_was_made_and_is_refused_later_is_no_change_of_its_own(book: Book) -> None:
    await book.passes(tenant(), Ready(), MAKE)
    refused = telling(bound_tenant(), conditions=[{"type": "Ready", "status": "False"}])
    await book.passes(refused, Stalled("RegionNotAllowed", "m"), action="UPDATE_TENANT")
    assert book.told == [("CREATE_TENANT", "1", *DONE)]


async def test_what_failed_and_then_succeeds_is_a_second_attempt(book: Book) -> None:
    await book.passes(tenant(), Stalled("SlugTaken", "m"))
    await book.passes(tenant(), Ready(), MAKE)
    assert [(one.spec.attempt, one.status.result) for one in book.all] == [(0, "FAILURE"), (1, "SUCCESS")]


@pytest.mark.parametrize("end", [Stalled("Forbidden", "m"), FLAKY], ids=str)
async def test_an_effect_that_fails_again_is_not_recorded_again_until_it_is_asked_for_or_succeeds(
    book: Book, end: Verdict
) -> None:
    async def tried(resource: Tenant, verdict: Verdict, *done: Change) -> None:
        decision, record = Decision(resource.status, verdict, "CREATE_TENANT", changes=(MAKE,)), book.record(resource)
        await record.begin(decision)
        for change in done:
            record.note(change)
        await record.settle(decision, verdict)

    await tried(tenant(), Stalled("Forbidden", "m"))
    for _ in range(3):
        await tried(tenant(), end)
    assert [one.status.result for one in book.all] == ["FAILURE"]
    await tried(tenant(annotations={RECONCILE_REQUESTED: "monday"}), Stalled("Forbidden", "m"))
    await tried(tenant(), Ready(), MAKE)
    assert [one.status.result for one in book.all] == ["FAILURE", "FAILURE", "SUCCESS"]


async def test_an_edit_is_named_by_its_generation(book: Book) -> None:
    await book.passes(edited(bound_tenant()), Ready(), action="UPDATE_TENANT")
    assert book.told == [("UPDATE_TENANT", "2", *DONE)]


async def test_a_request_is_its_own_cause(book: Book) -> None:
    await book.passes(bound_tenant(), Ready(), MAKE, action="UPDATE_TENANT", request="tenant-slug-acme-2")
    assert book.told == [("UPDATE_TENANT", "tenant-slug-acme-2", *DONE)]


async def test_a_deletion_is_its_own_cause_and_ends_with_the_object(book: Book) -> None:
    going = bound_tenant(deleting=True)
    await book.passes(going, Waiting("DeletingContents", "m"), MAKE, action="DELETE_TENANT")
    await book.passes(going, Gone(), action="DELETE_TENANT")
    assert book.told == [("DELETE_TENANT", "delete", *DONE)]


async def test_a_change_that_nobody_declared_is_a_drift(book: Book) -> None:
    await book.passes(bound_tenant(), Ready(), MAKE, action="UPDATE_TENANT")
    (one,) = book.all
    assert (one.spec.action, one.status.result) == ("CORRECT_DRIFT", "SUCCESS")
    assert one.spec.cause.startswith("drift-")


async def test_a_drift_that_comes_again_is_another_one(book: Book) -> None:
    for _ in range(2):
        await book.passes(bound_tenant(), Ready(), MAKE, action="UPDATE_TENANT")
        book.now += timedelta(minutes=1)
    assert len({one.spec.cause for one in book.all}) == 2


async def test_a_drift_that_is_being_corrected_stays_the_same_one(book: Book) -> None:
    await book.passes(bound_tenant(), Waiting("NamespaceMissing", "m"), MAKE, action="UPDATE_TENANT")
    book.now += timedelta(minutes=1)
    await book.passes(bound_tenant(), Ready(), MAKE, action="UPDATE_TENANT")
    assert [one.status.result for one in book.all] == ["SUCCESS"]


async def test_the_operation_runs_before_its_first_effect(book: Book) -> None:
    record = book.record(app())
    decision = Decision(app().status, Ready(), "INSTALL_APP", "1.0.0", "", (INSTALL,))
    await record.begin(decision)
    assert [(one.status.status, one.spec.steps) for one in book.all] == [("RUNNING", ("crm: install 1.0.0",))]
    await record.begin(decision)
    assert len(book.all) == 1


async def test_what_takes_its_time_as_expected_writes_nothing_beyond_the_beginning(book: Book) -> None:
    starts = Waiting("EngineStarting", "its pod does not exist yet", expected=True)
    await book.passes(app(), starts, INSTALL, action="INSTALL_APP", begins=True)
    (one,) = book.all
    assert one.metadata.generation == 1
    assert [line.split(" ", 1)[1] for line in one.status.logs.splitlines()] == ["INFO crm: install 1.0.0"]
    await book.passes(app(), starts, action="INSTALL_APP")
    assert book.all == [one]


async def test_a_wait_that_nobody_expects_is_in_the_log(book: Book) -> None:
    await book.passes(app(), Waiting("EngineFailed", "CrashLoopBackOff"), INSTALL, action="INSTALL_APP", begins=True)
    (one,) = book.all
    assert "waits: EngineFailed: CrashLoopBackOff" in one.status.logs
    assert one.status.logs.count("install") == 1


async def test_steps_are_recorded_where_it_is_born_completed(book: Book) -> None:
    await book.passes(tenant(), Ready(), MAKE)
    assert book.all[0].spec.steps == ("namespace tenant-acme: create",)


async def test_an_interrupted_one_is_resumed_under_its_name(book: Book) -> None:
    record = book.record(app())
    await record.begin(Decision(app().status, Ready(), "INSTALL_APP", "1.0.0", "", (INSTALL,)))
    await book.passes(app(), Ready(), INSTALL, action="INSTALL_APP", subject="1.0.0", begins=True)
    assert book.told == [("INSTALL_APP", "1", *DONE)]


async def test_one_that_was_left_behind_is_settled_though_its_generation_was_told(book: Book) -> None:
    await book.queue(bound_tenant(), "1", "UPDATE_TENANT")
    await book.passes(bound_tenant(), Ready(), action="")
    assert book.told == [("UPDATE_TENANT", "1", *DONE)]


async def test_what_the_facade_queued_is_taken_up(book: Book) -> None:
    name = await book.queue(tenant(), "1")
    record = await book.passes(tenant(), Ready(), MAKE)
    assert book.told == [("CREATE_TENANT", "1", *DONE)]
    assert record.last is not None
    assert (record.last.id, record.last.result) == (name, "SUCCESS")
    assert book.all[0].spec.requested_by == "ann"
    assert book.all[0].spec.steps == ("namespace tenant-acme: create",)


async def test_what_the_facade_queued_gets_its_steps_before_the_first_effect(book: Book) -> None:
    await book.queue(app(), "1", "INSTALL_APP")
    await book.record(app()).begin(Decision(app().status, Ready(), "INSTALL_APP", "", "", (INSTALL,)))
    assert [(one.status.status, one.spec.steps) for one in book.all] == [("RUNNING", ("crm: install 1.0.0",))]


async def test_steps_are_told_once_and_not_again_by_a_later_pass(book: Book) -> None:
    await book.passes(tenant(), Waiting("NamespaceMissing", "m"), MAKE)
    await book.passes(tenant(), Ready(), INSTALL)
    assert book.all[0].spec.steps == ("namespace tenant-acme: create",)


async def test_what_the_facade_queued_while_the_pass_ran_is_taken_up(book: Book) -> None:
    record = book.record(tenant())
    await book.queue(tenant(), "1")
    record.note(MAKE)
    await record.settle(Decision(tenant().status, Ready(), "CREATE_TENANT", changes=(MAKE,)), Ready())
    assert book.told == [("CREATE_TENANT", "1", *DONE)]


async def test_what_the_facade_queued_is_not_created_again(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server counts the refused request, too."""
    record = book.record(tenant())
    await book.queue(tenant(), "1")
    monkeypatch.setattr(book.store, "create", None)
    await record.settle(Decision(tenant().status, Ready(), "CREATE_TENANT", changes=(MAKE,)), Ready())
    assert book.told == [("CREATE_TENANT", "1", *DONE)]


async def test_a_newer_edit_supersedes_an_unfinished_one(book: Book) -> None:
    await book.passes(tenant(), Waiting("NamespaceMissing", "m"), MAKE)
    await book.passes(edited(tenant()), Ready(), MAKE)
    assert book.told == [("CREATE_TENANT", "1", "COMPLETED", "CANCELLED"), ("CREATE_TENANT", "2", *DONE)]
    assert "superseded by a newer change" in book.all[0].status.logs


async def test_a_deletion_supersedes_an_unfinished_one(book: Book) -> None:
    await book.passes(tenant(), Waiting("NamespaceMissing", "m"), MAKE)
    await book.passes(tenant(deleting=True), Gone(), action="DELETE_TENANT")
    assert book.told == [("CREATE_TENANT", "1", "COMPLETED", "CANCELLED"), ("DELETE_TENANT", "delete", *DONE)]
    assert "the object is being deleted" in book.all[0].status.logs


def wanting(resource: Resource[Any, Any]) -> Decision[Any]:
    return Decision(resource.status, Ready(), "CREATE_TENANT", changes=(MAKE,))


async def test_what_a_person_cancelled_is_not_tried_again_by_itself(book: Book) -> None:
    assert not book.record(tenant()).cancelled(wanting(tenant()))
    await book.cancel(await book.queue(tenant(), "1"))
    assert book.record(tenant()).cancelled(wanting(tenant()))


async def test_what_a_person_cancelled_is_tried_again_after_an_edit(book: Book) -> None:
    await book.cancel(await book.queue(tenant(), "1"))
    assert not book.record(edited(tenant())).cancelled(wanting(edited(tenant())))


async def test_what_a_person_cancelled_is_tried_again_when_a_reconcile_is_asked_for(book: Book) -> None:
    await book.cancel(await book.queue(tenant(), "1"))
    asked = tenant(annotations={RECONCILE_REQUESTED: "monday"})
    assert not book.record(asked).cancelled(wanting(asked))
    answered = telling(asked, lastHandledReconcileAt="monday")
    assert book.record(answered).cancelled(wanting(answered))


async def test_what_is_tried_again_is_another_attempt(book: Book) -> None:
    await book.cancel(await book.queue(tenant(), "1"))
    await book.passes(tenant(annotations={RECONCILE_REQUESTED: "monday"}), Ready(), MAKE)
    assert [(one.spec.attempt, one.status.result) for one in book.all] == [(0, "CANCELLED"), (1, "SUCCESS")]


async def test_a_correction_that_a_person_cancelled_is_not_tried_again_by_itself(book: Book) -> None:
    await book.passes(bound_tenant(), Waiting("NamespaceMissing", "m"), MAKE, action="UPDATE_TENANT")
    await book.cancel(book.all[0].id)
    book.now += timedelta(minutes=1)
    assert book.record(bound_tenant()).cancelled(wanting(bound_tenant()))


async def test_a_failure_tells_its_code_and_who_must_act(book: Book) -> None:
    await book.passes(tenant(), Stalled("NotConverging", "a bug", "Operator"))
    assert (book.all[0].status.code, book.all[0].status.by) == ("NotConverging", "Operator")


async def test_what_fails_in_passing_is_a_failure_at_the_deadline(book: Book) -> None:
    await book.passes(tenant(), FLAKY, MAKE)
    book.now += timedelta(minutes=14)
    await book.passes(tenant(), FLAKY)
    assert book.told == [("CREATE_TENANT", "1", *GONE_ON)]
    book.now += timedelta(minutes=2)
    await book.passes(tenant(), FLAKY)
    assert book.told == [("CREATE_TENANT", "1", *FAILED)]
    assert (book.all[0].status.code, book.all[0].status.by) == ("Timeout", "Operator")


async def test_the_deadline_is_as_it_was_set(book: Book) -> None:
    await book.passes(tenant(), FLAKY, MAKE)
    book.now += timedelta(seconds=11)
    record = book.record(tenant(), deadline=timedelta(seconds=10))
    await record.settle(Decision(tenant().status, FLAKY, "CREATE_TENANT"), FLAKY)
    assert book.told == [("CREATE_TENANT", "1", *FAILED)]


async def test_after_the_deadline_the_object_is_retried_without_further_failures(book: Book) -> None:
    await book.passes(tenant(), FLAKY, MAKE)
    book.now += LATE
    for _ in range(3):
        await book.passes(tenant(), FLAKY)
    assert [one.status.result for one in book.all] == ["FAILURE"]
    await book.passes(tenant(), Ready(), MAKE)
    assert [(one.spec.attempt, one.status.result) for one in book.all] == [(0, "FAILURE"), (1, "SUCCESS")]


async def test_a_retry_that_says_the_same_is_told_once(book: Book) -> None:
    for _ in range(3):
        await book.passes(tenant(), FLAKY, *((MAKE,) if not book.all else ()))
    assert book.all[0].status.logs.count("Timeout: the engine did not answer") == 1


async def test_a_log_is_a_line_a_step_with_time_and_level(book: Book) -> None:
    await book.passes(tenant(), Stalled("SlugTaken", "another's"), MAKE)
    assert book.all[0].status.logs.splitlines() == [
        "2026-03-01T12:00:00Z INFO namespace tenant-acme: create",
        "2026-03-01T12:00:00Z ERROR SlugTaken: another's",
    ]


async def test_the_reason_of_a_failure_is_kept_beside_the_log(book: Book) -> None:
    await book.passes(tenant(), Stalled("SlugTaken", "another's"))
    assert book.all[0].status.message == "another's"


async def test_a_status_carries_the_newest_4_kib_of_the_log(book: Book) -> None:
    await book.passes(tenant(), Stalled("Invalid", f"{'x' * LOG_LIMIT} the end"))
    logs = book.all[0].status.logs
    assert len(logs.encode()) == LOG_LIMIT
    assert logs.endswith("the end\n")


async def test_who_asked_is_told(book: Book) -> None:
    await book.passes(tenant(annotations={REQUESTED_BY: "git:ann"}), Ready(), MAKE)
    await book.passes(tenant("umbra"), Ready(), MAKE)
    assert {one.spec.target.name: one.spec.requested_by for one in book.all} == {"acme": "git:ann", "umbra": "system"}


@pytest.mark.parametrize("differs", ["uid", "action", "subject", "cause", "attempt"])
def test_a_name_is_of_all_that_an_operation_is_about(differs: str) -> None:
    about: dict[str, Any] = {"uid": "u", "action": "a", "subject": "s", "cause": "c", "attempt": 0}
    assert operation_name(**about) == operation_name(**about)
    assert operation_name(**about) != operation_name(**(about | {differs: 1 if differs == "attempt" else "other"}))


@table(
    {
        "the action": ("action", True),
        "the subject": ("subject", True),
        "the uid": ("uid", False),
        "the attempt": ("attempt", False),
    }
)
def test_an_operation_of_an_edit_has_one_name_whatever_its_writer_calls_the_change(seen: Any, expected: Any) -> None:
    about: dict[str, Any] = {"uid": "u", "action": "a", "subject": "s", "cause": "7", "attempt": 0}
    other = about | {seen: 1 if seen == "attempt" else "other"}
    assert (operation_name(**about) == operation_name(**other)) is expected


async def test_an_edit_that_the_facade_called_otherwise_is_taken_up(book: Book) -> None:
    record = book.record(edited(tenant()))
    await book.queue(edited(tenant()), "2", "CREATE_TENANT")
    await record.settle(Decision(tenant().status, Ready(), "UPDATE_TENANT", changes=(MAKE,)), Ready())
    assert book.told == [("CREATE_TENANT", "2", *DONE)]


async def test_an_edit_that_was_recorded_before_it_was_queued_is_that_operation(book: Book) -> None:
    await book.passes(edited(tenant()), Ready(), MAKE, action="UPDATE_TENANT")
    about: dict[str, Any] = {"cause": "2", "attribution": ACME, "caller": Caller("ann", "ann", "ADMIN")}
    name = await queue(book.store, edited(tenant()), action="CREATE_TENANT", **about)
    assert [name] == [one.metadata.name for one in book.all]
    assert book.told == [("UPDATE_TENANT", "2", *DONE)]


def test_whose_it_is_cannot_be_changed_once_it_is_opened() -> None:
    opened = queued_document(tenant(), action="DELETE_TENANT", cause="delete", attribution=ACME, requested_by="ann")
    for name in ("tenant", "tenantUid", "tenantId", "environmentId"):
        for spec in (opened["spec"] | {name: "another"}, {k: v for k, v in opened["spec"].items() if k != name}):
            with pytest.raises(Invalid):
                ADMISSION.admit({**opened, "spec": spec}, opened)
