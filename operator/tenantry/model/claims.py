"""Claims: which of several objects that want the same name or id holds it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from tenantry.model.resource import Resource


class Claim(NamedTuple):
    """One object's claim. held: its own status already carries the name; since: when the object was made."""

    held: bool
    since: datetime
    uid: str


def wins(mine: Claim, others: Iterable[Claim]) -> bool:
    """Held beats wanted, then the older, then the smaller uid."""
    return all(_rank(mine) < _rank(other) for other in others)


def holds_id(mine: Resource[Any, Any], rivals: Iterable[Resource[Any, Any]]) -> bool:
    """Does the object hold its id? Whose uid it is holds it, else the oldest that declares it. rivals: all that have the id."""
    ranked = sorted((one.metadata.uid != mine.id, one.metadata.creation_timestamp, one.metadata.uid) for one in rivals)
    return not ranked or ranked[0][2] == mine.metadata.uid


def _rank(claim: Claim) -> tuple[bool, datetime, str]:
    return (not claim.held, claim.since, claim.uid)
