"""Writes what a repository declares: ports.Declarations over a Git source. It is called while the source is not read."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import structlog

from tenantry.adapters.sources.documents import Admit
from tenantry.adapters.sources.git.command import GitFailed
from tenantry.adapters.sources.git.commits import Commits
from tenantry.adapters.sources.git.refusals import REPOSITORY_NOT_FOUND, Means, refusal_of
from tenantry.adapters.sources.git.source import GitSource, Latest
from tenantry.adapters.sources.sops import Sops
from tenantry.model.redeclaring import Committed, Redeclaration
from tenantry.model.resource import Ref
from tenantry.model.tree import Tree, is_yaml
from tenantry.model.verdicts import Halt, Invalid, Problem, Stalled, Transient

if TYPE_CHECKING:
    from tenantry.adapters.sources.drafting import Draft

T = TypeVar("T")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.05, 2.0
"""Between two tries of a write that others were faster than."""
REVIEWS = "refs/heads/tenantry/"
_REFUSALS = ("remote rejected", "denied", "declined", "forbidden", "not permitted", "protected", "permission", "is not a branch")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WritingSettings:
    """path: the file of a new object below the source's folder, of `{namespace}`, `{kind}` and `{name}`.

    review: each change goes to a branch of its own; whole_s: how long a write may take, retries included.
    """

    path: str = "{namespace}/{kind}-{name}.yaml"
    review: bool = False
    whole_s: float = 60.0


def _pause_s(lost: int) -> float:
    """With jitter: those who race with each other do not meet again."""
    return min(LAST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(lost - 1, 10)) * random.uniform(0.5, 1.5)  # noqa: S311


def checked_pattern(path: str) -> str:
    """The pattern of a new object's file. Raises ValueError."""
    try:
        file = path.format(namespace="tenant-a", kind="app", name="b")
    except (KeyError, IndexError, ValueError):
        raise ValueError(f"{path!r} may hold only {{namespace}}, {{kind}} and {{name}} in braces") from None
    steps = file.split("/")
    if not is_yaml(file) or any(step.startswith(".") for step in steps) or path.startswith("/") or "\\" in path:
        raise ValueError(f"{path!r} must be the path of a .yaml file below the source's folder, with no hidden part")
    return path


class GitDeclarations:
    """ports.Declarations: commits on the branch that the source follows, or on one of its own for each change."""

    def __init__(self, source: GitSource, commits: Commits, admit: Admit, sops: Sops, settings: WritingSettings) -> None:
        self._source = source
        self._commits = commits
        self._admit = admit
        self._sops = sops
        self._settings = settings

    async def write(self, change: Redeclaration) -> Committed:
        return await self._in_time(self._write(change))

    async def tree(self) -> Tree:
        return await self._in_time(self._read())

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Raises a Halt for what git says, and when it takes too long."""
        try:
            async with asyncio.timeout(self._settings.whole_s):
                return await work
        except TimeoutError:
            about = f"the repository did not accept it within {self._settings.whole_s:.0f} s: it is slow, or others keep pushing"
            raise Halt(
                Transient("RepositorySlow", f"{about}; if it accepted the commit after all, the next sync applies it")
            ) from None
        except (GitFailed, OSError) as error:
            raise _refused(error) from error

    async def _read(self) -> Tree:
        latest = await self._source.latest()
        _check_sound(latest)
        return latest.tree

    async def _write(self, change: Redeclaration) -> Committed:
        for lost in count():
            if lost:  # others pushed first
                await asyncio.sleep(_pause_s(lost))
            latest = await self._source.latest()
            _check_sound(latest)
            branch = await self._commits.branch(latest.ref)
            draft = await asyncio.to_thread(self._draft, latest, change)
            tree = await self._tree(latest.commit, draft)
            await self._check_fit(tree, draft)
            if self._settings.review:
                return await self._proposed(latest, draft, tree, change)
            commit = await self._commits.commit(tree, latest.commit, change.author, change.message)
            if untrusted := await self._source.distrust(commit):
                raise Halt(Stalled("SignatureRefused", f"the source would refuse the commit: {untrusted}", "Operator"))
            if await self._pushed(commit, branch, latest):
                await self._adopted(commit)
                return Committed(commit, change.author, draft.places)
        raise AssertionError("it is retried until its time is over")

    def _draft(self, latest: Latest, change: Redeclaration) -> Draft:
        """Return the files as the change leaves them. Raises Overtaken, Invalid. Blocks."""
        from tenantry.adapters.sources.drafting import Drafter  # with ruamel.yaml, which only a write needs

        declared = {each.ref: each for each in latest.tree.documents}
        return Drafter(declared, self._source.content, self._home, self._admit, self._sops).draft(change)

    def _home(self, ref: Ref) -> str:
        name = self._settings.path.format(namespace=ref.namespace, kind=ref.kind.lower(), name=ref.name)
        return self._source.placed("/".join(step for step in name.split("/") if step))

    async def _tree(self, commit: str, draft: Draft) -> str:
        """The tree of the draft. The source's folder stays: a file that was its last one is left empty."""
        made = partial(self._commits.tree, await self._root(commit))
        tree = await made(draft.files)
        folder = self._source.placed("")
        if not tree or (folder and await self._commits.repository.at(tree, folder.rstrip("/")) is None):
            tree = await made({file: data if data is not None else b"" for file, data in draft.files.items()})
        return tree

    async def _check_fit(self, tree: str, draft: Draft) -> None:
        """Raises Invalid where the source would not take the tree, or not read what is written."""
        problem = await self._source.misfit(tree, [file for file, data in draft.files.items() if data is not None])
        if problem is not None:
            raise Invalid((Problem("", f"the source would refuse the commit: {problem}"),))

    async def _root(self, commit: str) -> str:
        root = await self._commits.repository.at(commit, "")
        assert root is not None, "every commit has a tree"
        return root.oid

    async def _pushed(self, commit: str, branch: str, latest: Latest) -> bool:
        """Return True if the remote's branch has the commit now, False if others were first. Raises GitFailed when the
        remote refused."""
        try:
            await self._commits.push(commit, branch, latest.commit)
        except GitFailed:
            # The answer may be wrong or lost: only the present tip of the branch shows if the push arrived.
            ref, tip = await self._commits.repository.tip()
            if tip == latest.commit:
                raise
            if tip == commit:
                return True
            return await self._commits.repository.follows(await self._commits.repository.fetch(ref, tip), commit)
        return True

    async def _adopted(self, commit: str) -> None:
        try:
            await self._source.adopt(commit)
        except (GitFailed, OSError) as error:  # the remote has it: the next sync reads it
            log.warning("a commit of our own cannot be read yet", commit=commit, error=str(error))

    async def _proposed(self, latest: Latest, draft: Draft, tree: str, change: Redeclaration) -> Committed:
        """The commit on a branch that is named by what it changes: asked again, it's there already."""
        ref = change.edit.ref
        mark = hashlib.sha256(f"{latest.commit}\0{tree}".encode()).hexdigest()[:8]
        branch = f"{REVIEWS}{ref.kind.lower()}-{ref.name}-{mark}"
        commit = await self._commits.commit(tree, latest.commit, change.author, change.message)
        try:
            await self._commits.push(commit, branch, "")
        except GitFailed:
            held = await self._commits.held(branch)
            if not held:
                raise
            commit = held
        return Committed(commit, change.author, draft.places, branch.removeprefix("refs/heads/"))


def _check_sound(latest: Latest) -> None:
    if latest.held or not latest.commit:
        about = f"{latest.held[0]}" if latest.held else "nothing could be read from it yet"
        raise Invalid((Problem("", f"the source is broken, and nothing is committed to it until it is repaired: {about}"),))


def _refused(error: GitFailed | OSError) -> Halt:
    """Return the Halt for the error: the repository's owner must allow it, or a retry helps."""
    reason, refusal = str(error), refusal_of(error, Means())
    shut = refusal is not None and refusal.reason != REPOSITORY_NOT_FOUND
    if shut or any(word in reason.casefold() for word in _REFUSALS):
        return Halt(Stalled("RepositoryRefused", f"the repository refused the commit: {reason}", "Operator"))
    return Halt(
        Transient(
            "RepositoryAway",
            f"the repository cannot be written: {reason}; if it accepted the commit after all, a sync applies it",
        )
    )
