"""The result of a kind's pure decide."""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple, TypeVar

from tenantry.model.changes import Change
from tenantry.model.resource import Status
from tenantry.model.verdicts import Verdict

T = TypeVar("T", bound=Status)
Standing = Literal["Done", "Wanted", "Overtaken"]
"""The standing of a change of an object that was edited again: its effect exists, is still wanted, or is no longer declared."""


class Warned(NamedTuple):
    """Something that a person should mend. It does not keep an object from being Ready."""

    reason: str
    message: str


class Decision(NamedTuple, Generic[T]):
    """The status to write, how the pass ends once nothing is left to change, and the changes wanted now, in order.

    `status` holds the kind's own fields; conditions, observedGeneration and lastOperation are the runtime's.
    `action` names the Operation (`""` for kinds that make none), `subject` the app version it is about.
    `drift`: what differs and is left alone, as `driftPolicy: Warn` asks; None where differences are corrected.
    `request` is the annotation value that asked for it, where one did: the Operation's cause instead of the generation.
    `warning`: what is wrong though the object is as declared, None for nothing.
    `done`: the status instead once the changes have been carried out, where no look can tell that they were.
    """

    status: T
    verdict: Verdict
    action: str = ""
    subject: str = ""
    request: str = ""
    changes: tuple[Change, ...] = ()
    drift: tuple[str, ...] | None = None
    done: T | None = None
    warning: Warned | None = None
