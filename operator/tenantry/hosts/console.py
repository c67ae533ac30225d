"""What the command line needs of a platform: of this process, behind a control socket, or on a cluster.

A console acts with the platform's own rights: who reaches the state folder is its master.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from tenantry.model.facts import BackupFacts, PackageFacts
from tenantry.model.resource import Document, Ref
from tenantry.ports import Event
from tenantry.runtime.planned import Step


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


@dataclass(frozen=True)
class Applied:
    """What became of one document."""

    ref: Ref
    outcome: Literal["created", "changed", "unchanged"]


class KeptBack(NamedTuple):
    """An object that left its source and is not pruned. approvable: `approve` would let it go."""

    object: str
    reason: str
    approvable: bool


@dataclass(frozen=True)
class SourceReport:
    """A source as of its last sync: `problems` as sentences, `waiting` as (object, reason).

    location: its folder or URL; documents: how many it declares; synced: RFC 3339; revision: the commit that is applied, and
    away: since when and why the repository cannot be reached; `""` for a folder. exposed: Secrets in clear, each with its place.
    """

    name: str
    problems: tuple[str, ...] = ()
    kept: tuple[KeptBack, ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()
    location: str = ""
    documents: int = 0
    synced: str = ""
    revision: str = ""
    away: str = ""
    exposed: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanReport:
    """What a source would change: its lines, (object, reason, message) of what would not be Ready, and a digest of what was read
    and what would be done; what left the source and would be kept.

    steps: the same as the lines, taken apart.
    """

    changes: tuple[str, ...]
    verdicts: tuple[tuple[str, str, str], ...]
    digest: str
    problems: tuple[str, ...] = ()
    kept: tuple[KeptBack, ...] = ()
    steps: tuple[Step, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As REST's dryRun answers, with the problems of the source and what it keeps."""
        verdicts = [{"object": object_, "reason": reason, "message": message} for object_, reason, message in self.verdicts]
        body = {"changes": list(self.changes), "verdicts": verdicts, "digest": self.digest}
        return body | {"problems": list(self.problems), "kept": [each._asdict() for each in self.kept]}


class Approved(NamedTuple):
    """A plan that was looked at. source: as it is written; name: the source's own; changes: its lines."""

    source: str
    name: str
    digest: str
    changes: tuple[str, ...]


class Console(Protocol):
    """A platform: of this process, behind a control socket, or on a cluster. Every call may raise Halt."""

    async def about(self) -> About:
        """Which platform it is, and whether it runs."""

    async def list(self, kind: str) -> Sequence[Document]:
        """All objects of a kind, in order of namespace and name."""

    async def get(self, ref: Ref) -> Document:
        """Raises NotFound."""

    def watch(self, kind: str) -> AsyncIterator[Event]:
        """What is there, as ADDED, then every change, without end."""

    async def apply(self, document: Document) -> Applied:
        """Creates the object, or brings it to the document. Raises Invalid, Forbidden (a source declares it), NotFound
        (its namespace)."""

    async def patch(self, ref: Ref, patch: Document) -> Document:
        """Merges `patch` into the object as a JSON merge patch does. Raises NotFound, Invalid."""

    async def delete(self, ref: Ref) -> Document:
        """Raises NotFound, Forbidden (protected, or declared by a source)."""

    async def log(self, operation: str) -> str:
        """The whole log of an Operation. Raises NotFound."""

    async def source(self) -> SourceReport:
        """What the followed source came to. Raises NotFound when none is followed."""

    async def sync(self, source: str) -> SourceReport:
        """Reads the source now, a repository from its remote, and applies it. Raises NotFound for another source."""

    async def plan(self, source: str, name: str) -> PlanReport:
        """What following a folder (absolute) or the URL of a repository as the source `name` would change. Nothing is done."""

    async def apply_plan(self, plan: Approved) -> Sequence[KeptBack]:
        """Does what was planned, and returns when it has come to rest what left the source and is kept.

        Raises Forbidden when anything else would be done, or another source is followed here.
        """

    async def approve(self, source: str) -> Sequence[str]:
        """Prunes what is kept for approval now, and tells what. Raises NotFound for another source."""

    async def put_package(self, tenant: str, package: Path) -> PackageFacts:
        """Stores a package file, and has the Packages of those bytes looked at. `tenant` `""`: shared. Raises Invalid."""

    async def find_package(self, tenant: str, sha256: str) -> PackageFacts | None:
        """What a stored package says of itself, or None."""

    async def copy_package(self, tenant: str, sha256: str, target: str) -> None:
        """Copies a stored package to a file (absolute). Raises NotFound."""

    async def backup(self, environment: Ref, target: str) -> BackupFacts:
        """Backs up an environment to a file (absolute), while it runs. Raises NotFound."""

    async def backups(self) -> Sequence[BackupFacts]:
        """The archives, or on a cluster the kept volumes, of removed environments, the newest first."""

    async def restore(self, archive: str, namespace: str, name: str) -> Sequence[Applied]:
        """Makes an environment again, from a file (absolute) or by its id. `""`: under its own name. Raises NotFound,
        AlreadyExists, Invalid."""

    async def token(self, username: str, ttl: timedelta) -> str:
        """A bearer token of that User for the facade. Raises NotFound."""
