"""The command line's view of a platform: of this process, behind a control socket, or on a cluster.

A console acts with the platform's own rights: anybody who reaches the state folder controls it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.model.facts import Applied, BackupFacts, PackageFacts, Trust
from tenantry.model.resource import Document, Ref
from tenantry.ports import Event
from tenantry.runtime.planning.planned import Step

STRICT = Trust()
"""Restores only what the platform itself has signed."""


@dataclass(frozen=True)
class About:
    """The platform itself. url: `""` while nothing runs. source: the name of what it follows, `""` for nothing.

    faults: background work that has failed and not recovered yet.
    """

    release: str
    state: str
    url: str = ""
    source: str = ""
    faults: tuple[str, ...] = ()


class KeptReport(NamedTuple):
    """An object that left its source and is not pruned. approvable: `approve` would let it go."""

    object: str
    reason: str
    approvable: bool


@dataclass(frozen=True)
class SourceReport:
    """A source as of its last sync: `problems` as sentences, `waiting` as (object, reason).

    location: its folder or URL; documents: how many it declares; synced: RFC 3339; revision: the commit that is applied, and
    away: since when and why the repository cannot be reached; `""` for a folder. exposed: Secrets in clear, each with its place.
    passed_over: how many documents of other API groups its files hold.
    """

    name: str
    problems: tuple[str, ...] = ()
    kept: tuple[KeptReport, ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()
    location: str = ""
    documents: int = 0
    synced: str = ""
    revision: str = ""
    away: str = ""
    exposed: tuple[str, ...] = ()
    passed_over: int = 0


@dataclass(frozen=True)
class PlanReport:
    """The changes of a source: lines, (object, reason, message) of objects that would not be Ready, and a digest of the input
    and the effects; also the objects that left the source and would be kept.

    steps: the parsed form of the lines; passed_over: how many documents of other API groups the source holds.
    """

    changes: tuple[str, ...]
    verdicts: tuple[tuple[str, str, str], ...]
    digest: str
    problems: tuple[str, ...] = ()
    kept: tuple[KeptReport, ...] = ()
    steps: tuple[Step, ...] = ()
    passed_over: int = 0

    def to_json(self) -> dict[str, Any]:
        """As REST's dryRun answers, with the problems of the source and what it keeps."""
        verdicts = [{"object": object_, "reason": reason, "message": message} for object_, reason, message in self.verdicts]
        body = {"changes": list(self.changes), "verdicts": verdicts, "digest": self.digest}
        kept = [each._asdict() for each in self.kept]
        return body | {"problems": list(self.problems), "kept": kept, "passed_over": self.passed_over}


class Approved(NamedTuple):
    """A plan that was looked at. source: as it is written; name: the source's own; changes: its lines."""

    source: str
    name: str
    digest: str
    changes: tuple[str, ...]


class Console(Protocol):
    """A platform: of this process, behind a control socket, or on a cluster. Every call may raise Halt."""

    async def about(self) -> About:
        """Return the identity of the platform, and its state."""

    async def list(self, kind: str) -> Sequence[Document]:
        """All objects of a kind, in order of namespace and name."""

    async def get(self, ref: Ref) -> Document:
        """Raises NotFound."""

    def watch(self, kind: str) -> AsyncIterator[Event]:
        """Yield the present objects as ADDED, then every change, without end."""

    async def apply(self, document: Document) -> Applied:
        """Creates the object, or brings it to the document. Raises Invalid, Forbidden (a source declares it), NotFound
        (its namespace)."""

    async def patch(self, ref: Ref, patch: Document) -> Document:
        """Merges `patch` into the object as a JSON merge patch does. Raises NotFound, Invalid."""

    async def delete(self, ref: Ref) -> Document:
        """Raises NotFound, Forbidden (protected, or declared by a source)."""

    async def log(self, operation: str) -> str:
        """The whole log of an Operation. Raises NotFound."""

    async def orphans(self) -> Sequence[HeldEngine]:
        """Return the engines of the host that no Environment has. Raises Forbidden for who may not see all of them."""

    async def source(self) -> SourceReport:
        """Return the report of the followed source. Raises NotFound when none is followed."""

    async def sync(self, source: str) -> SourceReport:
        """Reads the source now, a repository from its remote, and applies it. Raises NotFound for another source."""

    async def plan(self, source: str, name: str) -> PlanReport:
        """Return the changes of following a folder (absolute) or the URL of a repository as the source `name`. Changes
        nothing."""

    async def apply_plan(self, plan: Approved) -> Sequence[KeptReport]:
        """Carry out the plan, wait until all is settled, and return the objects that left the source and are kept.

        Raises Forbidden if the effects would differ, or if another source is followed here.
        """

    async def approve(self, source: str) -> Sequence[str]:
        """Prune the objects that wait for approval now, and return them. Raises NotFound for another source."""

    async def put_package(self, tenant: str, package: Path) -> PackageFacts:
        """Stores a package file, and has the Packages of those bytes looked at. `tenant` `""`: shared. Raises Invalid."""

    async def find_package(self, tenant: str, sha256: str) -> PackageFacts | None:
        """Return the facts of a stored package, or None."""

    async def copy_package(self, tenant: str, sha256: str, target: str) -> None:
        """Copies a stored package to a file (absolute). Raises NotFound."""

    async def backup(self, environment: Ref, target: str, recipients: Sequence[str] = ()) -> BackupFacts:
        """Backs up an environment to a file (absolute), while it runs. recipients: public keys of age that it is encrypted to.
        Raises NotFound, Invalid."""

    async def backups(self) -> Sequence[BackupFacts]:
        """The archives, or on a cluster the kept volumes, of removed environments, the newest first."""

    async def restore(self, archive: str, namespace: str, name: str, trust: Trust = STRICT) -> Sequence[Applied]:
        """Makes an environment again, from a file (absolute) or by its id. `""`: under its own name. Raises NotFound,
        AlreadyExists, Invalid."""

    async def token(self, username: str, ttl: timedelta) -> str:
        """A bearer token of that User for the facade. Raises NotFound."""
