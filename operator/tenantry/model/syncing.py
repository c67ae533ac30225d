"""What a Source asks for, what came of it, and the two effects that this takes. Values only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from tenantry.model.resource import Ref
from tenantry.model.verdicts import Stalled, Transient, Waiting

LONGEST_LABEL = 63


def owner_of(source: Ref) -> str:
    """The name of a Source in the label `tenantry.dev/source` of what it applies: unlike any other's, also of a directory's."""
    whole = f"{source.namespace}.{source.name}"
    if len(whole) <= LONGEST_LABEL:
        return whole
    return f"{source.name}.{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Access:
    """How a repository is entered. mark: tells one credential from another; signers: whose commits are taken, `""`: anybody's."""

    secret: Ref | None = None
    key: str = ""
    mark: str = ""
    known_hosts: str = ""
    signers: str = ""


@dataclass(frozen=True)
class Writing:
    """How callers' writes become commits. review: each on a branch of its own; path: the pattern of a new object's file.

    signer, key: the Secret with what signs them, None for unsigned ones; mark: tells one such key from another.
    """

    review: bool
    path: str
    signer: Ref | None = None
    key: str = ""
    mark: str = ""


@dataclass(frozen=True)
class SyncOrder:
    """What a Source asks for. revision: a full ref, `""` for the repository's own; tenant: whose rights, `""`: the platform's.

    objects, percent: the prune budget. settled: the last commit of which nothing was left to approve; it is only looked at
    when nothing is known of the Source yet. approved: the digest of what may be pruned; asked: the newest request for a look.
    writing: None where it takes no writes.
    """

    source: Ref
    uid: str
    url: str
    revision: str
    path: str
    interval_s: float
    tenant: str = ""
    access: Access = Access()
    writing: Writing | None = None
    objects: int = 10
    percent: int = 50
    settled: str = field(default="", compare=False)
    approved: str = ""
    asked: str = ""

    @property
    def owner(self) -> str:
        return owner_of(self.source)

    @property
    def settings(self) -> SyncOrder:
        """Without what asks for another look alone."""
        return replace(self, approved="", asked="", settled="")


@dataclass(frozen=True)
class KeptBack:
    """An object that left its source and is not pruned. approvable: a person's approval would let it go."""

    object: str
    uid: str
    reason: str
    approvable: bool = True


@dataclass(frozen=True)
class Followed:
    """What came of an order. failure: why nothing came of it. away: since when and why the remote cannot be read.
    refusal: the reason of a remote that answers and lets nobody in, `""` of one that cannot be reached.

    revision: the commit that is applied; documents: how many it declares; objects: how many are the Source's. problems: why
    newer commits, or some of the objects, are not applied, as sentences that name file and line; waiting: what is tried again;
    released: what left the repository last, stays, and is nobody's.
    """

    order: SyncOrder
    failure: Stalled | Waiting | Transient | None = None
    ended: datetime | None = None
    revision: str = ""
    settled: str = ""
    documents: int = 0
    objects: int = 0
    away: str = ""
    refusal: str = ""
    problems: tuple[str, ...] = ()
    kept: tuple[KeptBack, ...] = ()
    released: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def approval_of(kept: Iterable[KeptBack]) -> str:
    """What an approval of exactly these names; `""` when there is nothing to approve."""
    uids = sorted(each.uid for each in kept if each.approvable)
    return hashlib.sha256("\n".join(uids).encode()).hexdigest()[:16] if uids else ""


@dataclass(frozen=True)
class FollowSource:
    """Reads a Source's repository and applies it, from now on, beside the passes."""

    order: SyncOrder

    def __str__(self) -> str:
        return f"source {self.order.source.name}: follow {self.order.url}"


@dataclass(frozen=True)
class LeaveSource:
    """Follows a Source no longer. What it has applied stays, and is nobody's; or goes, where that is asked for."""

    order: SyncOrder
    prune: bool = False

    def __str__(self) -> str:
        return f"source {self.order.source.name}: {'prune' if self.prune else 'release'} its objects"


@dataclass(frozen=True)
class StopSource:
    """Follows a Source no longer, and touches nothing but its copy of the repository."""

    source: Ref
    uid: str

    def __str__(self) -> str:
        return f"source {self.source.name}: stop"
