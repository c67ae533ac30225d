"""A Git repository as a source: polled, fetched, read by content. A revision is taken as a whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import structlog

from tenantry.adapters.sources.documents import Admit, whole
from tenantry.adapters.sources.git.applied import AppliedCommit, AppliedCommitInMemory
from tenantry.adapters.sources.git.command import GitFailed, GitLimits
from tenantry.adapters.sources.git.entering import Enter, as_configured
from tenantry.adapters.sources.git.files import FileChoice, SourceFiles
from tenantry.adapters.sources.git.packages import GitPackages
from tenantry.adapters.sources.git.refusals import Means
from tenantry.adapters.sources.git.repository import APPLIED, READ, Repository
from tenantry.adapters.sources.git.signatures import Signatures
from tenantry.adapters.sources.git.state import Contact, FetchProgress, Root, pause_s, shown
from tenantry.adapters.sources.git.tree import LINK
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.sops import Sops
from tenantry.model.tree import Revision, SourceProblem, Tree
from tenantry.model.verdicts import Halt

MOST_COMMITS = 10_000
"""The commits of a history that a client sends, so that a rewritten one is noticed elsewhere."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class GitSettings:
    """Settings of a Git source. interval_s: the time between two looks at the remote.

    sops: decrypts the files; signers: the file of trusted signers, None for no check, and its name for people. applied:
    remembers the last commit with nothing left to approve, also when the folder is lost; enter: gives access to the remote;
    means: its names for people. ignore: patterns of files that are left out; strict: documents of other programs are problems.
    """

    interval_s: float = 60.0
    limits: GitLimits = field(default_factory=GitLimits)
    sops: Sops = field(default_factory=Sops)
    signers: Path | None = None
    signers_shown: str = ""
    applied: AppliedCommit = field(default_factory=AppliedCommitInMemory)
    enter: Enter = as_configured
    means: Means = field(default_factory=Means)
    ignore: tuple[str, ...] = ()
    strict: bool = False


class Latest(NamedTuple):
    """The remote as it is now. ref: of the remote; commit: which it names; tree: what that declares; held: why it is broken."""

    ref: str
    commit: str
    tree: Tree
    held: tuple[SourceProblem, ...]


class GitSource:
    """Reads a revision of a repository. It keeps what it has read by content: what did not change is not read again."""

    def __init__(
        self,
        url: GitUrl,
        folder: Path,
        admit: Admit,
        packages: PackageFiles,
        now: Callable[[], datetime],
        settings: GitSettings | None = None,
    ) -> None:
        """folder: its own; all in it can be fetched again."""
        settings = settings or GitSettings()
        self._url = url
        self._now = now
        self._interval_s, self._remembered, self._means = settings.interval_s, settings.applied, settings.means
        self.repository = self._repository = Repository(folder / "repository", url, settings.limits, settings.enter)
        shown_as = settings.signers_shown
        self._signatures = Signatures(self._repository, settings.signers, shown_as) if settings.signers else None
        self._packages = GitPackages(self._repository, packages, folder / "packages", settings.limits.packages)
        choice = FileChoice(settings.limits.yaml, settings.ignore, settings.strict)
        self._files = SourceFiles(self._repository, admit, self._packages, settings.sops, choice)
        self._progress, self._contact = FetchProgress(), Contact()
        self._applied = ""

    async def read(self) -> Tree:
        """Return the declarations of the revision; the last good ones if it is broken or unreachable. It raises for neither."""
        try:
            await self._advance()
            self._contact = Contact()
        except (GitFailed, OSError) as error:
            self._contact = self._contact.failed(error, self._means, self._now())
        if self._progress.good is None:
            await self._recall()
        return shown(self._progress, self._contact, str(self._url))

    async def applied(self, tree: Tree) -> None:
        """Takes note that a tree is applied, and nothing of it is left to approve."""
        if tree.revision is None or tree.revision.commit == self._applied:
            return
        try:
            await self._remembered.note(tree.revision.commit)
            await self._repository.note(APPLIED, tree.revision.commit)
            self._applied = tree.revision.commit
        except (GitFailed, OSError, Halt) as error:  # the next sync notes it
            log.warning("the applied revision could not be recorded", commit=tree.revision.commit, error=str(error))

    async def latest(self) -> Latest:
        """Asks the remote, and has its commit here. Raises GitFailed, OSError when it cannot be reached."""
        if not await self._repository.is_made():
            self._progress = replace(self._progress, tip="")  # what was read is known, and the repository was discarded since
        await self._advance()
        at = self._progress
        return Latest(at.ref, at.commit, at.good or Tree(), at.held)

    async def adopt(self, commit: str) -> None:
        """Takes a commit of our own that the remote's branch names now. Raises GitFailed, OSError."""
        await self._take(commit)
        if not self._progress.held:
            self._progress = self._progress.at(self._progress.ref, commit, commit)

    def content(self, file: str) -> bytes | None:
        """Return the bytes of a YAML file as it was read last, None for one that was not."""
        return self._files.content(file)

    def placed(self, name: str) -> str:
        """The file of the repository that a name below the source's folder means; the one file, where it is one."""
        root = self._progress.root
        assert root is not None, "it is being read for the first time"
        return root.prefix + (root.only or name)

    async def misfit(self, tree: str, files: Iterable[str]) -> SourceProblem | None:
        """Return the reason to hold back a tree before its commit, or to ignore those of its files. Raises GitFailed."""
        root = await self._begin(tree)
        if isinstance(root, SourceProblem):
            return root
        found = await self._files.listed(root)
        unread = (file for file in files if file.removeprefix(root.prefix) not in found.yaml)
        reason = "is left out or belongs to a package, and declares nothing"
        return next(chain(found.problems, (whole(file, reason) for file in unread)), None)

    async def distrust(self, commit: str) -> str:
        """Return the reason to refuse a commit, `""` if a trusted key signed it. Raises GitFailed, OSError."""
        return await self._signatures.refusal(commit) if self._signatures else ""

    async def history(self, tree: Tree) -> tuple[str, ...]:
        """Return the commits that lead to the one that a tree shows, newest first. Raises GitFailed."""
        return await self._repository.ancestors(tree.revision.commit, MOST_COMMITS) if tree.revision else ()

    async def changes(self) -> AsyncIterator[None]:
        """Yields when the remote is to be asked again, without end: soon after a failure, then less and less often."""
        while True:
            await asyncio.sleep(pause_s(self._interval_s, self._contact.failures, self._contact.shut))
            yield None

    async def _advance(self) -> None:
        """Takes what the remote names now. Raises GitFailed, OSError."""
        ref, tip = await self._repository.tip()
        again = await self._files.other_keys() or self._progress.tries_again
        if tip == self._progress.tip and not again:
            return
        commit = await self._fetched(ref, tip)
        if commit != self._progress.commit or again:
            await self._take(commit)
        self._progress = self._progress.at(ref, tip, commit)

    async def _fetched(self, ref: str, tip: str) -> str:
        if self._url.pinned and await self._repository.noted(READ) == tip:
            return tip
        try:
            return await self._repository.fetch(ref, tip)
        except GitFailed:
            if await self._repository.sound():
                raise
            await self._repository.discard()
            return await self._repository.fetch(ref, tip)

    async def _take(self, commit: str) -> None:
        """Takes a commit, or holds it back for what is wrong with it. Raises GitFailed, OSError."""
        if not await self._is_trusted(commit):
            return
        try:
            root, tree = await self._read_at(commit)
        except GitFailed as error:
            if not await self._repository.sound():
                await self._repository.discard()
                raise
            self._progress = self._progress.unreadable(whole(str(self._url), f"{commit[:12]} cannot be read: {error}"))
            return
        if not tree.problems:
            await self._repository.note(READ, commit)
        self._progress = self._progress.taken(root, tree)
        if not tree.problems:
            await self._packages.tidy()

    async def _is_trusted(self, commit: str) -> bool:
        """Return True if a trusted key signed the commit. Otherwise it is held back, with the reason."""
        reason = await self.distrust(commit)
        if reason:
            self._progress = self._progress.held_back(whole(str(self._url), f"{commit[:12]} is not applied: {reason}"))
        return not reason

    async def _recall(self) -> None:
        """Takes the last good commit of an earlier process, where it is still there: all of this is but a cache."""
        try:
            commit = await self._repository.noted(READ)
            if commit and not await self.distrust(commit):
                root, tree = await self._read_at(commit)
                if not tree.problems:
                    self._progress = replace(self._progress, good=tree, root=root)
        except (GitFailed, OSError) as error:
            log.warning("the last good revision cannot be read", error=str(error))

    async def _read_at(self, commit: str) -> tuple[Root | None, Tree]:
        root = await self._begin(commit)
        if isinstance(root, SourceProblem):
            return None, Tree(problems=(root,))
        good = self._progress.good
        known = good is not None and root == self._progress.root and not self._files.stale
        tree = good if good is not None and known else await self._files.read(root)
        return root, tree if tree.problems else replace(tree, revision=await self._revision(commit))

    async def _begin(self, commit: str) -> Root | SourceProblem:
        path = self._url.path
        entry = await self._repository.at(commit, path)
        if entry is None:
            return whole(path, f"is not in {commit[:12]}")
        if entry.mode == "040000":
            return Root(entry.oid, f"{path}/" if path else "", "")
        if not entry.mode.startswith("100"):
            return whole(path, "is a link; links in a repository are not followed" if entry.mode == LINK else "is a submodule")
        above, _, name = path.rpartition("/")
        folder = await self._repository.at(commit, above)
        return Root(folder.oid, f"{above}/" if above else "", name) if folder else whole(path, f"is not in {commit[:12]}")

    async def _revision(self, commit: str) -> Revision:
        applied = await self._remembered.last() or await self._repository.noted(APPLIED)
        rewrote = bool(applied) and applied != commit and not await self._repository.follows(commit, applied)
        history = await self._repository.history(commit, self._url.path)
        return Revision(commit, applied if rewrote else "", history.origin, history.removal)
