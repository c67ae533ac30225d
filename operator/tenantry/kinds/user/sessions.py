"""The sessions of a User that were signed out, as an annotation of the User keeps them until their tokens expire. Pure.

`ROUND ID:UNTIL ...`: until is in seconds since the epoch. Each round has tokens of its own, so a new one ends all before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tenantry.model.resource import SIGNED_OUT, Document, Ref

KEPT = 500
"""More sessions than this are not remembered one by one: the next sign-out ends all sessions of the User."""


@dataclass(frozen=True)
class Session:
    """One token's. ends: when nobody takes the token any more, in seconds since the epoch."""

    user: Ref
    id: str
    ends: int


@dataclass(frozen=True)
class SignedOut:
    """sessions: by id, until when each is remembered."""

    round: int = 0
    sessions: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join((str(self.round), *(f"{id_}:{until}" for id_, until in self.sessions.items())))


def signed_out(annotations: Mapping[str, str]) -> SignedOut:
    """Return the sign-outs in the annotation of a User; values that Tenantry cannot have written are left out."""
    first, *words = annotations.get(SIGNED_OUT, "").split() or ("0",)
    pairs = (word.rpartition(":") for word in words)
    return SignedOut(_number(first), {id_: _number(until) for id_, _, until in pairs if id_ and _number(until)})


def ended(user: Document, session: Session, now: datetime) -> Document:
    """The User with that session signed out; sessions that have expired are forgotten."""
    annotations = user["metadata"].get("annotations") or {}
    before, moment = signed_out(annotations), int(now.timestamp())
    sessions = {id_: until for id_, until in before.sessions.items() if until >= moment} | {session.id: session.ends}
    after = SignedOut(before.round, sessions) if len(sessions) <= KEPT else SignedOut(before.round + 1)
    return {**user, "metadata": {**user["metadata"], "annotations": {**annotations, SIGNED_OUT: str(after)}}}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
