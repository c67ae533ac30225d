"""A plan that somebody looked at, against what would happen now."""

from __future__ import annotations

from collections.abc import Sequence

from tenantry.hosts.console.protocol import Approved
from tenantry.model.verdicts import Forbidden


def check_holds(approved: Approved, digest: str, changes: Sequence[str], problems: Sequence[str]) -> None:
    """Raises Forbidden, naming what differs, unless it is the plan that was looked at. changes: the lines of now."""
    if digest == approved.digest:
        return
    new, gone = (
        [line for line in one if line not in other] for one, other in ((changes, approved.changes), (approved.changes, changes))
    )
    if problems:
        raise moved(problems[0])
    if new:
        raise moved(f"now it would also do: {new[0].strip()}")
    if gone:
        raise moved(f"now it would not do: {gone[0].strip()}")
    raise moved("the source, or an object that it changes, is not as it was")


def moved(why: str) -> Forbidden:
    """Return the refusal of a plan that no longer holds."""
    return Forbidden(f"the plan is out of date: {why}; make a new one with `tenantry plan`, and review it")
