"""State of a Git source as values: what was read last, the answers of the remote, and what follows from both. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from tenantry.adapters.sources.documents import whole
from tenantry.adapters.sources.git.refusals import REPOSITORY_NOT_FOUND, Means, refusal_of
from tenantry.adapters.sources.git.tree import MOST_PROBLEMS
from tenantry.model.resource import format_time
from tenantry.model.tree import SourceProblem, Tree
from tenantry.model.wording import counted

READ_ATTEMPTS = 3
"""Attempts to read a commit that git cannot read: the cause may pass, or a hostile tree may be made for it."""
FIRST_RETRY_S = 5.0
LAST_RETRY_S = 300.0


class Root(NamedTuple):
    """The root of a source. tree: its id; prefix: before every name below it; only: the single file to read, `""` for all."""

    tree: str
    prefix: str
    only: str


@dataclass(frozen=True)
class FetchProgress:
    """The part of a repository that was read. ref: of the remote; tip: what it named last; commit: the commit of that.

    good, root: the last revision that could be taken as a whole. held: why the newest one is not taken. unread: how often in a
    row git could not read it.
    """

    ref: str = ""
    tip: str = ""
    commit: str = ""
    good: Tree | None = None
    root: Root | None = None
    held: tuple[SourceProblem, ...] = ()
    unread: int = 0

    @property
    def tries_again(self) -> bool:
        """Return True if the same commit is read once more, because git could not read it."""
        return bool(self.held) and 0 < self.unread < READ_ATTEMPTS

    def at(self, ref: str, tip: str, commit: str) -> FetchProgress:
        """The remote was followed to there."""
        return replace(self, ref=ref, tip=tip, commit=commit)

    def taken(self, root: Root | None, tree: Tree) -> FetchProgress:
        """A revision is read as a whole: it is the good one now, or held back for what is wrong with it."""
        if tree.problems:
            return replace(self, held=_bounded(tree.problems), unread=0)
        return replace(self, good=tree, root=root, held=(), unread=0)

    def held_back(self, problem: SourceProblem) -> FetchProgress:
        """A revision is not taken, whatever it holds."""
        return replace(self, held=(problem,))

    def unreadable(self, problem: SourceProblem) -> FetchProgress:
        """Git could not read a revision."""
        return replace(self, held=(problem,), unread=self.unread + 1)


@dataclass(frozen=True)
class Contact:
    """The answers of the remote. failures: in a row; since: of the first; refusal: why it refuses access, `""` if it does not."""

    failures: int = 0
    since: str = ""
    reason: str = ""
    refusal: str = ""

    def failed(self, error: Exception, means: Means, now: datetime) -> Contact:
        """It could not be reached once more."""
        refusal = refusal_of(error, means)
        since = self.since or format_time(now.replace(microsecond=0))
        return Contact(self.failures + 1, since, refusal.message if refusal else str(error), refusal.reason if refusal else "")

    @property
    def away(self) -> str:
        """Since when and why it cannot be reached, `""` while it can."""
        return f"since {self.since}: {self.reason}" if self.failures else ""

    @property
    def shut(self) -> bool:
        """Return True if only a person can open it again."""
        return self.refusal not in ("", REPOSITORY_NOT_FOUND)


def shown(progress: FetchProgress, contact: Contact, url: str) -> Tree:
    """Return the tree that a source shows: the last good revision, or the reason why there is none."""
    if progress.good is None:
        unread = progress.held or (whole(url, f"cannot be fetched: {contact.reason}"),)
        return Tree(problems=unread, away=contact.away, refusal=contact.refusal)
    return replace(progress.good, held=progress.held, away=contact.away, refusal=contact.refusal)


def pause_s(interval_s: float, failures: int, shut: bool = False) -> float:
    """Return the time until the next call to the remote, after that many failures in a row.

    shut: the remote refuses access, which only a person can change; many forges lock out frequent callers.
    """
    if not failures:
        return interval_s
    if shut:
        return max(interval_s, LAST_RETRY_S)
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 30), max(interval_s, LAST_RETRY_S))


def _bounded(problems: Iterable[SourceProblem]) -> tuple[SourceProblem, ...]:
    problems = tuple(problems)
    if len(problems) <= MOST_PROBLEMS:
        return problems
    more = counted(len(problems) - MOST_PROBLEMS, "more problem")
    return (*problems[:MOST_PROBLEMS], whole(".", f"has {more}"))
