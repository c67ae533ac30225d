"""Decisions about the Operations of one object: which one a pass belongs to, and how each goes on or ends. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenantry.kinds.operation.spec import ENDED, MESSAGE_LIMIT, UNNUMBERED, Operation
from tenantry.model.changes import Change, DeployEngine, loses_data, opens_first
from tenantry.model.decision import Decision, Standing
from tenantry.model.resource import RECONCILE_REQUESTED, TRACEPARENT, Resource, Status, format_time
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.runtime.operations.documents import DELETION

DEADLINE = timedelta(minutes=15)
DRIFT = "drift-"
"""The prefix of the causes of corrections."""
SHOWS_WITHIN = timedelta(minutes=1)
"""The longest time that the Operation of a request waits for its object to show the request."""
Keys = Collection[str]
"""The keys by which the cache finds an object."""
StandingOf = Callable[[Any, str, str], Standing]
"""Of a resource, an action and a subject. See ports.Kind."""


class Known(NamedTuple):
    """The Operations of an object and the pass over it, as they were when it began.

    deadline: how long a Transient failure is retried before the Operation is a FAILURE. cause: of this pass's change, `""`
    until it is decided. current: the Operation that this pass holds. steps: done in this pass. deferred: an effect began whose
    Operation is stored with its result, or once it has to wait.
    """

    resource: Resource[Any, Any]
    operations: tuple[Operation, ...] = ()
    standing: StandingOf = lambda resource, action, subject: "Overtaken"
    deadline: timedelta = DEADLINE
    cause: str = ""
    current: Operation | None = None
    steps: tuple[str, ...] = ()
    deferred: bool = False

    def unfinished(self, cause: str) -> Operation | None:
        """Return the unfinished Operation of that cause."""
        return next((each for each in self.operations if not each.finished and each.spec.cause == cause), None)

    def results(self, cause: str) -> set[str]:
        """Return the results of the Operations of that cause."""
        return {each.status.result for each in self.operations if each.spec.cause == cause}


class Line(NamedTuple):
    """A line of a log."""

    level: str
    text: str


class Superseded(NamedTuple):
    """An older Operation that ends because of a newer change. line: the last one of its log."""

    operation: Operation
    status: Mapping[str, str]
    line: Line


class OperationDecision(NamedTuple):
    """The writes that an object's Operations need now.

    cause: of the pass's change, `""` when nothing asked for it. superseded: at most one Operation of an object runs. held: the
    unfinished Operation that the pass goes on with. status: None leaves it alone; an empty one writes only new lines of the log.
    steps: to show instead of those that are done. deferred: see Known.
    """

    cause: str = ""
    superseded: tuple[Superseded, ...] = ()
    held: Operation | None = None
    status: Mapping[str, Any] | None = None
    lines: tuple[Line, ...] = ()
    steps: tuple[str, ...] = ()
    deferred: bool = False


def bearing_on(resource: Resource[Any, Any], operations: Iterable[Keys]) -> Callable[[Keys], bool]:
    """Return the test of an Operation, one of these, for whether a pass over the object may need it.

    One that ended, of another generation, says nothing about a change of now. But it has the name of an attempt while another
    one of that generation is unfinished, and shows that the trace of the object was about it.
    """
    unfinished = {key for keys in operations if ENDED not in keys for key in keys if key.startswith("generation=")}
    trace = f"traceparent={resource.metadata.annotations.get(TRACEPARENT)}"
    wanted = {UNNUMBERED, f"generation={resource.metadata.generation}", trace, *unfinished}
    return lambda keys: ENDED not in keys or not wanted.isdisjoint(keys)


def decide_operation(known: Known, decision: Decision[Any], verdict: Verdict | None, now: datetime) -> OperationDecision:
    """Decide about the Operations of an object. verdict: how the pass ends, None before its first effect."""
    if verdict is None:
        return _beginning(known, decision, now)
    return _settling(known, decision, verdict, now)


def _beginning(known: Known, decision: Decision[Any], now: datetime) -> OperationDecision:
    """Set RUNNING, and show the steps, so that a pass that then only waits has nothing more to write."""
    if known.current is not None or not decision.action:
        return OperationDecision()
    cause = cause_of(known, decision, now)
    if _failed_before(known, decision, cause):
        return OperationDecision(cause)
    held, superseded = known.unfinished(cause), _superseded(known, cause, known.resource.status, None, now)
    if held is not None and held.status.status == "RUNNING":
        return OperationDecision(cause, superseded, held)
    if _is_deferred(known, decision, cause):
        return OperationDecision(cause, deferred=True)
    started = {"status": "RUNNING", "result": "PENDING", "startedOn": format_time(now)}
    steps = tuple(map(str, decision.changes))
    return OperationDecision(cause, superseded, held, started, tuple(Line("INFO", step) for step in steps), steps)


def _is_deferred(known: Known, decision: Decision[Any], cause: str) -> bool:
    """Return True if one write is enough: of the result.

    That is so for a new engine of a pool, or a changed one, which is there in a moment. The record must not get lost if the pass
    is interrupted: until there is one, the next pass finds that the declaration is not yet carried out.
    """
    recorded = known.resource.ready or not cause.isdecimal() or known.results(cause) - {"PENDING"}
    first = [change for change in decision.changes if opens_first(change)]
    return bool(first) and not recorded and all(map(_ends_at_once, first))


def _ends_at_once(change: Change) -> bool:
    return isinstance(change, DeployEngine) and change.spec.pool != "" and not change.spec.restoring


def _settling(known: Known, decision: Decision[Any], verdict: Verdict, now: datetime) -> OperationDecision:
    """End, keep or record the Operation."""
    if not decision.action and all(each.finished or _unseen(known, each, now) for each in known.operations):
        return OperationDecision()
    cause = cause_of(known, decision, now)
    superseded = _superseded(known, cause, decision.status, verdict, now)
    if known.current is None and not _wanted(known, decision, verdict, cause):
        return OperationDecision(cause, superseded)
    held = known.current or known.unfinished(cause)
    ended = _ending(verdict, _overdue(known, held, now))
    if ended is not None:
        status: Mapping[str, Any] = ended | {"endsOn": format_time(now)}
    elif held is None or held.status.status != "RUNNING":
        status = {"status": "RUNNING", "startedOn": format_time(now)}
    else:
        status = {}
    steps = _with_planned(known.steps, decision) if known.deferred and ended is None else ()
    return OperationDecision(cause, superseded, held, status, _lines_of(verdict, ended is not None), steps)


def _with_planned(done: tuple[str, ...], decision: Decision[Any]) -> tuple[str, ...]:
    return (*done, *(step for step in map(str, decision.changes) if step not in done))


def is_cancelled(known: Known) -> bool:
    """Return True if a person cancelled the change of this cause: it is not retried."""
    same = [each for each in known.operations if each.spec.cause == known.cause]
    return bool(same) and max(same, key=lambda each: each.spec.attempt).status.result == "CANCELLED"


def is_requested(resource: Resource[Any, Any]) -> bool:
    """Return True if somebody requested a reconcile that no pass has answered yet."""
    asked = resource.metadata.annotations.get(RECONCILE_REQUESTED)
    return asked is not None and asked != resource.status.last_handled_reconcile_at


def cause_of(known: Known, decision: Decision[Any], now: datetime) -> str:
    """Return the cause that names the change of this pass."""
    resource = known.resource
    if known.cause:
        return known.cause
    if resource.deleting:
        return DELETION
    if decision.request:
        return decision.request
    if resource.status.observed_generation == resource.metadata.generation and (left := _left_behind(known, now)):
        return left
    if not resource.ready:
        return str(resource.metadata.generation)
    return _drift_cause(known, decision.changes, now)


def _left_behind(known: Known, now: datetime) -> str:
    """The cause of the newest Operation that an interrupted pass left unfinished, or `""`."""
    unfinished = [each for each in known.operations if not each.finished and not _unseen(known, each, now)]
    left = [each for each in unfinished if not _overtaken(known, each)]
    newest = max(left, key=lambda each: int(each.spec.cause) if each.spec.cause.isdecimal() else 0, default=None)
    return newest.spec.cause if newest is not None else ""


def _unseen(known: Known, operation: Operation, now: datetime) -> bool:
    """Return True if the Operation is of a change that this pass has not seen.

    The watches of objects and of Operations are separate: an Operation may be seen before the edit that it is about. The edit
    wakes the object, and then a pass carries it out. A request has no generation: what does not show it within a minute was
    overtaken by another request.
    """
    cause, resource = operation.spec.cause, known.resource
    if cause.isdecimal():
        return int(cause) > resource.metadata.generation
    if cause == DELETION:
        return not resource.deleting
    made = operation.metadata.creation_timestamp
    queued = operation.status.status == "QUEUED" and made is not None and now - made < SHOWS_WITHIN
    return queued and not resource.shows_request(cause)


def _overtakes(known: Known, cause: str, operation: Operation) -> bool:
    """Return True if the cause is a request that came after the one which the Operation is about."""
    own = [each for each in known.operations if each.spec.cause == cause]
    both = _is_request(cause) and _is_request(operation.spec.cause)
    return both and all(_made(each) >= _made(operation) for each in own)


def _is_request(cause: str) -> bool:
    return not cause.isdecimal() and cause != DELETION and not cause.startswith(DRIFT)


def _made(operation: Operation) -> tuple[str, int]:
    """Order Operations that nobody has written since they were made."""
    metadata = operation.metadata
    return (format_time(metadata.creation_timestamp) if metadata.creation_timestamp else "", int(metadata.resource_version))


def _overtaken(known: Known, operation: Operation) -> bool:
    """Return True if it is of an earlier generation, whose change is no longer declared."""
    cause = operation.spec.cause
    if not cause.isdecimal() or int(cause) >= known.resource.metadata.generation:
        return False
    return known.standing(known.resource, operation.spec.action, operation.spec.subject) == "Overtaken"


def _drift_cause(known: Known, changes: Iterable[Change], now: datetime) -> str:
    digest = hashlib.sha256("\n".join(map(str, changes)).encode()).hexdigest()[:12]
    same = [each for each in known.operations if each.spec.cause.startswith(f"{DRIFT}{digest}-")]
    newest = max(same, key=lambda each: (each.spec.cause, each.spec.attempt), default=None)
    if newest is not None and (not newest.finished or newest.status.result == "CANCELLED"):
        return newest.spec.cause
    return f"{DRIFT}{digest}-{format_time(now)}"


def _failed_before(known: Known, decision: Decision[Any], cause: str) -> bool:
    """Return True if this change failed and nobody requested it since. Nearby events retry it, and a different result is
    recorded. A loss of data is announced each time."""
    if is_requested(known.resource) or any(map(loses_data, decision.changes)):
        return False
    return known.unfinished(cause) is None and "FAILURE" in known.results(cause)


def _wanted(known: Known, decision: Decision[Any], verdict: Verdict, cause: str) -> bool:
    """Return True if there is, or must be, an Operation for a pass that opened none."""
    if known.deferred and isinstance(verdict, Waiting | Transient):
        return True
    if isinstance(verdict, Waiting) and not known.steps:
        return False
    if known.unfinished(cause) is not None:
        return True
    asked = not known.resource.ready or decision.request != ""
    due = bool(decision.action) and (bool(known.steps) or asked)
    return due and (bool(known.steps) or not _recorded(known, cause, verdict))


def _recorded(known: Known, cause: str, verdict: Verdict) -> bool:
    """Return True if an Operation of this change ended as this pass did. A change that was made counts as made."""
    results = known.results(cause)
    failed = not isinstance(verdict, Ready | Gone) and bool(results & {"FAILURE", "CANCELLED"})
    return "SUCCESS" in results or failed or isinstance(verdict, Transient)


def _overdue(known: Known, held: Operation | None, now: datetime) -> bool:
    started = held.status.started_on if held is not None else None
    return started is not None and now - started > known.deadline


def _ending(verdict: Verdict, overdue: bool) -> dict[str, Any] | None:
    """Return the status of an Operation whose pass ends so, or None while it goes on."""
    match verdict:
        case Ready() | Gone():
            return {"status": "COMPLETED", "result": "SUCCESS"}
        case Stalled(by=by):
            return {"status": "COMPLETED", **_failure(verdict, by)}
        case Transient() if overdue:
            return {"status": "COMPLETED", **_failure(verdict, "Operator")}
    return None


def _failure(verdict: Stalled | Transient, by: str) -> dict[str, str]:
    return {"result": "FAILURE", "code": verdict.reason, "message": verdict.message[:MESSAGE_LIMIT], "by": by}


def _lines_of(verdict: Verdict, ends: bool) -> tuple[Line, ...]:
    match verdict:
        case Stalled(reason, message):
            return (Line("ERROR", f"{reason}: {message}"),)
        case Transient(reason, message):
            gave_up = Line("ERROR", "gave up at the deadline; the object is still being retried")
            return (Line("WARNING", f"{reason}: {message}"), *((gave_up,) if ends else ()))
        case Waiting(reason, message, _, expected) if not expected:
            # An expected wait is in the object's own status, and the log goes on with what comes of it.
            return (Line("INFO", f"waits: {reason}: {message}"),)
    return ()


def _superseded(known: Known, cause: str, status: Status, verdict: Verdict | None, now: datetime) -> tuple[Superseded, ...]:
    """status: the object's as it is now; verdict: how the pass ends, None while it goes on."""
    unfinished = [each for each in known.operations if not each.finished and each.spec.cause != cause]
    others = [each for each in unfinished if not _unseen(known, each, now) or _overtakes(known, cause, each)]
    if not others:
        return ()
    resource = known.resource.model_copy(update={"status": status})
    ends = ((each, _outcome_of(each, known, resource, verdict)) for each in others)
    return tuple(Superseded(each, *end) for each, end in ends if end is not None)


def _outcome_of(
    operation: Operation, known: Known, resource: Resource[Any, Any], verdict: Verdict | None
) -> tuple[dict[str, str], Line] | None:
    """Return the end of an older Operation, and the last line of its log; None while its change comes with that of a newer
    one."""
    spec = operation.spec
    standing = known.standing(resource, spec.action, spec.subject) if spec.cause.isdecimal() else "Overtaken"
    if resource.deleting:
        return {"result": "CANCELLED"}, Line("INFO", "cancelled: the object is being deleted")
    if standing == "Done":
        return {"result": "SUCCESS"}, Line("INFO", "carried out together with a newer change")
    if standing == "Overtaken":
        return {"result": "CANCELLED"}, Line("INFO", "cancelled: superseded by a newer change")
    if not isinstance(verdict, Stalled):
        return None
    return _failure(verdict, verdict.by), Line("ERROR", f"{verdict.reason}: {verdict.message}")
