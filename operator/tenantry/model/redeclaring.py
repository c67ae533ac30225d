"""A changed declaration, and the commit that declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tenantry.model.resource import Document, Ref


class Edit(NamedTuple):
    """One object. before: as it is stored, None for a new one; after: as it is to be declared, None when it leaves its source."""

    ref: Ref
    before: Document | None
    after: Document | None


@dataclass(frozen=True)
class Redeclaration:
    """A change of what a source declares: one commit. along: what leaves the source together with what is removed.

    author: `Name <address>`; message: its first line says what, trailers say for whom.
    """

    edit: Edit
    author: str
    message: str
    along: tuple[Ref, ...] = ()


@dataclass(frozen=True)
class Committed:
    """A commit that the remote has. places: `file:line` of what it declares.

    branch: where it waits for review, `""` when it holds.
    """

    commit: str
    author: str
    places: Mapping[Ref, str]
    branch: str = ""


class Proposed(Exception):  # noqa: N818 - not an error: the change waits for people
    """Nothing is changed yet: the commit waits on a branch of its own until somebody merges it."""

    def __init__(self, committed: Committed) -> None:
        super().__init__(f"{committed.commit[:12]} waits for review on the branch {committed.branch}")
        self.committed = committed
