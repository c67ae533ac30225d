"""Claims: which of several objects that want the same name holds it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple


class Claim(NamedTuple):
    """One object's claim. held: its own status already carries the name; since: when the object was made."""

    held: bool
    since: datetime
    uid: str


def wins(mine: Claim, others: Iterable[Claim]) -> bool:
    """Held beats wanted, then the older, then the smaller uid."""
    return all(_rank(mine) < _rank(other) for other in others)


def _rank(claim: Claim) -> tuple[bool, datetime, str]:
    return (not claim.held, claim.since, claim.uid)
