"""Claims: which of several objects that want the same name or id holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from tenantry.model.fields import slug_problem
from tenantry.model.resource import Resource
from tenantry.model.verdicts import Stalled, Verdict

R = TypeVar("R", bound=Resource[Any, Any])


class Claim(NamedTuple):
    """One object's claim. held: its own status already carries the name; since: when the object was made."""

    held: bool
    since: datetime
    uid: str


def claim_of(resource: Resource[Any, Any], held: bool, now: datetime) -> Claim:
    """The claim of an object that may have been made just now."""
    return Claim(held, resource.metadata.creation_timestamp or now, resource.metadata.uid)


def rivals_of(resource: R, others: Iterable[R], holds: Callable[[R], bool]) -> tuple[Claim, ...]:
    """The claims of all the others that want what the object wants. holds: does that one's status carry it?"""
    return tuple(
        Claim(holds(other), other.metadata.creation_timestamp, other.metadata.uid)
        for other in others
        if other.metadata.uid != resource.metadata.uid and other.metadata.creation_timestamp is not None
    )


def wins(mine: Claim, others: Iterable[Claim]) -> bool:
    """Held beats wanted, then the older, then the smaller uid."""
    return all(_rank(mine) < _rank(other) for other in others)


def slug_refusal(mine: Claim, slug: str, rivals: Iterable[Claim], whose: str) -> Stalled | None:
    """Return why an object cannot have the slug in effect. A slug that it holds is kept, whatever the rules are now."""
    problem = "" if mine.held else slug_problem(slug)
    if problem:
        return Stalled("SlugInvalid", f"spec.slug: {problem}; set another")
    if not wins(mine, rivals):
        return Stalled("SlugTaken", f"spec.slug: {slug!r} is {whose}; choose another")
    return None


def lost(verdict: Verdict | None) -> bool:
    """Return whether another object has the name. The status then gives it up, should both have taken it."""
    return verdict is not None and verdict.reason in ("SlugTaken", "Duplicate")


def holds_id(mine: Resource[Any, Any], rivals: Iterable[Resource[Any, Any]]) -> bool:
    """Return True if the object holds its id. rivals: all that have the id.

    The object with that uid holds it, otherwise one whose engine has it, otherwise the oldest that declares it. Of two that were
    made in one second, the first to get an engine may have the larger uid: nobody takes the id from it then.
    """
    ranked = sorted(
        (one.metadata.uid != mine.id, not one.took_id, one.metadata.creation_timestamp, one.metadata.uid) for one in rivals
    )
    return not ranked or ranked[0][3] == mine.metadata.uid


def _rank(claim: Claim) -> tuple[bool, datetime, str]:
    return (not claim.held, claim.since, claim.uid)
