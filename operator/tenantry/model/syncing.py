"""The orders of a Source, their results, and the two effects that they take. Only values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from tenantry.model.resource import Ref
from tenantry.model.verdicts import Stalled, Transient, Waiting

LONGEST_LABEL = 63


def source_label(source: Ref) -> str:
    """The name of a Source in the label `tenantry.dev/source` of what it applies: unlike any other's, also of a directory's."""
    whole = f"{source.namespace}.{source.name}"
    if len(whole) <= LONGEST_LABEL:
        return whole
    return f"{source.name}.{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class RepositoryAccess:
    """Access to a repository. mark: distinguishes credentials; signers: of trusted commits, `""`: anybody."""

    secret: Ref | None = None
    key: str = ""
    mark: str = ""
    known_hosts: str = ""
    signers: str = ""


@dataclass(frozen=True)
class Writing:
    """Commits of callers' writes. review: each on its own branch; path: the pattern of a new object's file.

    signer, key: the Secret that signs them, None for unsigned ones; mark: distinguishes such keys.
    """

    review: bool
    path: str
    signer: Ref | None = None
    key: str = ""
    mark: str = ""


@dataclass(frozen=True)
class SyncOrder:
    """The order of a Source. revision: a full ref, `""` for the repository's own; tenant: the owner of the rights, `""`: the
    platform.

    objects, percent: the prune budget. settled: the last commit with nothing left to approve; used only while nothing is known
    of the Source. approved: the digest of the approved prune; asked: the newest request for a sync. writing: None if it takes
    no writes. ignore: patterns of files that are left out; strict: documents of other API groups are refused.
    """

    source: Ref
    uid: str
    url: str
    revision: str
    path: str
    interval_s: float
    tenant: str = ""
    access: RepositoryAccess = RepositoryAccess()
    writing: Writing | None = None
    ignore: tuple[str, ...] = ()
    strict: bool = False
    objects: int = 10
    percent: int = 50
    settled: str = field(default="", compare=False)
    approved: str = ""
    asked: str = ""

    @property
    def owner(self) -> str:
        return source_label(self.source)

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
    """The result of an order. failure: the reason if there is no result. away: the time and reason since the remote cannot be
    read. refusal: the reason of a remote that refuses access, `""` of one that cannot be reached.

    revision: the applied commit; documents: their number in it; passed_over: the number of documents of other API groups;
    objects: the number of the Source's objects. problems: reasons why newer commits, or some objects, are not applied, as
    sentences with file and line; waiting: retried objects; released: objects that left the repository last, stay, and have no
    source.
    """

    order: SyncOrder
    failure: Stalled | Waiting | Transient | None = None
    ended: datetime | None = None
    revision: str = ""
    settled: str = ""
    documents: int = 0
    passed_over: int = 0
    objects: int = 0
    away: str = ""
    refusal: str = ""
    problems: tuple[str, ...] = ()
    kept: tuple[KeptBack, ...] = ()
    released: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def approval_of(kept: Iterable[KeptBack]) -> str:
    """Return the approval of exactly these; `""` when there is nothing to approve."""
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
