"""The one writer of conditions: what a pass's verdict looks like in status."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from tenantry.model.decision import Warned
from tenantry.model.resource import (
    DRIFTED,
    HOT,
    RECONCILE_REQUESTED,
    SUSPENDED,
    WARNING,
    Condition,
    LastOperation,
    Resource,
    Status,
)
from tenantry.model.verdicts import NOT_LOOKED_AT, Gone, Ready, Stalled, Transient, Verdict, Waiting


def summarise(
    resource: Resource[Any, Any],
    status: Status,
    verdict: Verdict,
    last: LastOperation | None,
    now: datetime,
    drift: tuple[str, ...] | None = None,
    warning: Warned | None = None,
    *,
    hot: bool = False,
) -> dict[str, Any]:
    """The status to write, as JSON: the kind's own fields, conditions as kstatus reads them, and the last Operation.

    drift: what differs and is left alone, None where nothing is; warning: what a person should mend.
    hot: is it reconciled too often?"""
    told = [*_conditions(verdict), *_drifted(resource, verdict, drift), *_warned(warning), *([_HOT] if hot else [])]
    conditions = [_stamped(each, resource, now) for each in told]
    written = status.model_copy(
        update={
            "observed_generation": resource.metadata.generation,
            "conditions": tuple(conditions),
            "last_operation": last or resource.status.last_operation,
            "last_handled_reconcile_at": _handled(resource, verdict),
        }
    )
    return written.to_json()


def suspended(resource: Resource[Any, Any], now: datetime) -> dict[str, Any]:
    """The status of an object on which nothing is done: as it was, its generation not observed, and that it is suspended."""
    others = tuple(each for each in resource.status.conditions if each.type != SUSPENDED)
    told = _stamped(_Told(SUSPENDED, "True", "Suspended", "it is not reconciled until it is resumed"), resource, now)
    written: Status = resource.status.model_copy(update={"conditions": (*others, told)})
    return written.to_json()


def current(resource: Resource[Any, Any]) -> dict[str, Any]:
    """The status as it is stored, for comparison."""
    status: Status = resource.status
    return status.to_json()


def _handled(resource: Resource[Any, Any], verdict: Verdict) -> str | None:
    """The request for a reconcile that is answered: not yet while a pass that failed in passing is to be repeated."""
    if isinstance(verdict, Transient):
        handled: str | None = resource.status.last_handled_reconcile_at
        return handled
    return resource.metadata.annotations.get(RECONCILE_REQUESTED)


class _Told(NamedTuple):
    """A condition, before it is stamped."""

    type: str
    status: str
    reason: str
    message: str = ""


_HOT = _Told(
    HOT,
    "True",
    "ReconciledTooOften",
    "reconciled more than 30 times within an hour although nothing changed: find out which client or controller writes to it, "
    "or to what it refers to",
)


def _conditions(verdict: Verdict) -> list[_Told]:
    match verdict:
        case Ready(reason, message):
            return [_Told("Ready", "True", reason, message)]
        case Waiting(reason, message):
            return _not_ready(reason, message, "Reconciling")
        case Transient(reason, message):
            return _not_ready(reason, message, "Reconciling")
        case Stalled(reason, message, _):
            return _not_ready(reason, message, "Stalled")
        case Gone(reason, message):
            return _not_ready(reason, message, "Reconciling")


def _drifted(resource: Resource[Any, Any], verdict: Verdict, drift: tuple[str, ...] | None) -> list[_Told]:
    """Return the drift condition. A pass that could not look keeps the earlier report of this generation."""
    if drift:
        return [_Told(DRIFTED, "True", "EngineDiffers", "; ".join(drift)[:MESSAGE])]
    if isinstance(verdict, Ready) and verdict.reason != NOT_LOOKED_AT:
        return [] if drift is None else [_Told(DRIFTED, "False", "AsDeclared")]
    told = resource.status.condition(DRIFTED)
    if told is None or told.observed_generation != resource.metadata.generation:
        return []
    return [_Told(told.type, told.status, told.reason, told.message)]


def _warned(warning: Warned | None) -> list[_Told]:
    return [_Told(WARNING, "True", warning.reason, warning.message[:MESSAGE])] if warning else []


def _not_ready(reason: str, message: str, also: str) -> list[_Told]:
    told = message[:MESSAGE]
    return [_Told("Ready", "False", reason, told), _Told(also, "True", reason, told)]


def _stamped(told: _Told, resource: Resource[Any, Any], now: datetime) -> Condition:
    before = resource.status.condition(told.type)
    since = before.last_transition_time if before is not None and before.status == told.status else None
    generation = resource.metadata.generation
    return Condition(**told._asdict(), observed_generation=generation, last_transition_time=since or now)


# The API server's own bound on a condition's message.
MESSAGE = 32768
