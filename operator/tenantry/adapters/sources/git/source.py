"""A Git repository as a source: polled, fetched, read by content. A revision is taken as a whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import structlog

from tenantry.adapters.sources.documents import Admit, declare, gathered, line_of, whole, with_packages
from tenantry.adapters.sources.git.applied import Applied, Remembered
from tenantry.adapters.sources.git.command import GitFailed, GitLimits
from tenantry.adapters.sources.git.entering import Enter, as_configured
from tenantry.adapters.sources.git.packages import GitPackages
from tenantry.adapters.sources.git.refusals import REPOSITORY_NOT_FOUND, Means, Refusal, refusal_of
from tenantry.adapters.sources.git.repository import APPLIED, READ, Repository
from tenantry.adapters.sources.git.signatures import Signatures
from tenantry.adapters.sources.git.tree import LINK, MOST_PROBLEMS, Listed, listed
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.read import Unreadable
from tenantry.adapters.sources.sops import Sops
from tenantry.model.resource import Document, format_time
from tenantry.model.tree import Declared, Place, Revision, SourceProblem, Tree
from tenantry.model.verdicts import Halt

READ_ATTEMPTS = 3
"""How often a commit is read that git cannot read: what ails it may pass, or be what a hostile tree is made for."""
FIRST_RETRY_S = 5.0
LAST_RETRY_S = 300.0
_POINTER = b"version https://git-lfs.github.com/spec/"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class GitSettings:
    """interval_s: between two looks at the remote.

    sops: opens what is encrypted there; signers: a file of who must have signed the commit, None for no matter who, and how
    people know that file; applied: remembers the commit of which nothing was left to approve, also when the folder is lost;
    enter: how the remote is entered; means: by what, for people.
    """

    interval_s: float = 60.0
    limits: GitLimits = field(default_factory=GitLimits)
    sops: Sops = field(default_factory=Sops)
    signers: Path | None = None
    signers_shown: str = ""
    applied: Applied = field(default_factory=Remembered)
    enter: Enter = as_configured
    means: Means = field(default_factory=Means)


@dataclass(frozen=True, slots=True)
class _File:
    """One YAML file as it was read. documents: their Packages not filled in."""

    oid: str
    data: bytes
    documents: tuple[Declared, ...]
    problems: tuple[SourceProblem, ...]

    @property
    def sealed(self) -> bool:
        return any(each.sealed for each in self.documents)


class _Root(NamedTuple):
    """Where a source begins. tree: its id; prefix: before every name below it; only: the one file to read, `""` for all."""

    tree: str
    prefix: str
    only: str


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
        self._admit = admit
        self._now = now
        self._interval_s, self._remembered = settings.interval_s, settings.applied
        self._largest = settings.limits.yaml
        self._means = settings.means
        self._sops, self._stamp = settings.sops, settings.sops.stamp()
        self.repository = self._repository = Repository(folder / "repository", url, settings.limits, settings.enter)
        shown = settings.signers_shown
        self._signatures = Signatures(self._repository, settings.signers, shown) if settings.signers else None
        self._packages = GitPackages(self._repository, packages, folder / "packages", settings.limits.packages)
        self._files: dict[str, _File] = {}
        self._good: Tree | None = None
        self._root: _Root | None = None
        self._held: tuple[SourceProblem, ...] = ()
        self._ref = self._tip = self._commit = self._applied = ""
        self._unread, self._stale = 0, False
        self._failures, self._since, self._reason = 0, "", ""
        self._refusal: Refusal | None = None

    async def read(self) -> Tree:
        """What the revision declares; the last good one where it is broken or cannot be reached. It raises for neither."""
        try:
            await self._advance()
            self._failures, self._since, self._reason, self._refusal = 0, "", "", None
        except (GitFailed, OSError) as error:
            self._failures += 1
            self._since = self._since or format_time(self._now().replace(microsecond=0))
            self._refusal = refusal_of(error, self._means)
            self._reason = self._refusal.message if self._refusal else str(error)
        if self._good is None:
            await self._recall()
        away = f"since {self._since}: {self._reason}" if self._failures else ""
        refusal = self._refusal.reason if self._refusal else ""
        if self._good is None:
            unread = self._held or (whole(str(self._url), f"cannot be fetched: {self._reason}"),)
            return Tree(problems=unread, away=away, refusal=refusal)
        return replace(self._good, held=self._held, away=away, refusal=refusal)

    async def applied(self, tree: Tree) -> None:
        """Takes note that a tree is applied, and nothing of it is left to approve."""
        if tree.revision is None or tree.revision.commit == self._applied:
            return
        try:
            await self._remembered.note(tree.revision.commit)
            await self._repository.note(APPLIED, tree.revision.commit)
            self._applied = tree.revision.commit
        except (GitFailed, OSError, Halt) as error:  # the next sync notes it
            log.warning("the applied revision could not be noted", commit=tree.revision.commit, error=str(error))

    async def latest(self) -> Latest:
        """Asks the remote, and has its commit here. Raises GitFailed, OSError when it cannot be reached."""
        if not await self._repository.is_made():
            self._tip = ""  # what was read is known, and the repository was discarded since
        await self._advance()
        return Latest(self._ref, self._commit, self._good or Tree(), self._held)

    async def adopt(self, commit: str) -> None:
        """Takes a commit of our own that the remote's branch names now. Raises GitFailed, OSError."""
        await self._take(commit)
        if not self._held:
            self._tip = self._commit = commit

    def content(self, file: str) -> bytes | None:
        """The bytes of a YAML file as it was read last, None for one that was not."""
        held = self._files.get(file)
        return held.data if held else None

    def placed(self, name: str) -> str:
        """The file of the repository that a name below the source's folder means; the one file, where it is one."""
        assert self._root is not None, "it is read first"
        return self._root.prefix + (self._root.only or name)

    async def misfit(self, tree: str, files: Iterable[str]) -> SourceProblem | None:
        """Why a tree that is not committed yet would be held back, or those files of it not be read. Raises GitFailed."""
        root = await self._begin(tree)
        if isinstance(root, SourceProblem):
            return root
        found = await self._listed(root)
        unread = (file for file in files if file.removeprefix(root.prefix) not in found.yaml)
        return next(chain(found.problems, (whole(file, "is of a package, and declares nothing") for file in unread)), None)

    async def distrust(self, commit: str) -> str:
        """Why a commit is not to be taken, `""` when it is signed by whom it must be. Raises GitFailed, OSError."""
        return await self._signatures.refusal(commit) if self._signatures else ""

    async def changes(self) -> AsyncIterator[None]:
        """Yields when the remote is to be asked again, without end: soon after a failure, then less and less often."""
        while True:
            shut = self._refusal is not None and self._refusal.reason != REPOSITORY_NOT_FOUND
            await asyncio.sleep(pause_s(self._interval_s, self._failures, shut))
            yield None

    async def _advance(self) -> None:
        """Takes what the remote names now. Raises GitFailed, OSError."""
        ref, tip = await self._repository.tip()
        again = await self._other_keys() or (bool(self._held) and 0 < self._unread < READ_ATTEMPTS)
        if tip == self._tip and not again:
            return
        commit = await self._fetched(ref, tip)
        if commit != self._commit or again:
            await self._take(commit)
        self._ref, self._tip, self._commit = ref, tip, commit

    async def _other_keys(self) -> bool:
        """Is the key file another one than when files were last read, or gone? What it opens, or did not, is then read again."""
        before, self._stamp = self._stamp, await asyncio.to_thread(self._sops.stamp)
        if before == self._stamp:
            return False
        self._files = {name: file for name, file in self._files.items() if not file.problems and not file.sealed}
        self._stale = True
        return True

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
            self._held = (whole(str(self._url), f"{commit[:12]} cannot be read: {error}"),)
            self._unread += 1
            return
        self._unread = 0
        if tree.problems:
            self._held = _bounded(tree.problems)
            return
        await self._repository.note(READ, commit)
        self._good, self._root, self._held = tree, root, ()
        await self._packages.tidy()

    async def _is_trusted(self, commit: str) -> bool:
        """Is it signed by whom it must be? It is held back otherwise, and says why."""
        reason = await self.distrust(commit)
        if reason:
            self._held = (whole(str(self._url), f"{commit[:12]} is not taken: {reason}"),)
        return not reason

    async def _recall(self) -> None:
        """Takes the last good commit of an earlier process, where it is still there: all of this is but a cache."""
        try:
            commit = await self._repository.noted(READ)
            if commit and not await self.distrust(commit):
                root, tree = await self._read_at(commit)
                if not tree.problems:
                    self._good, self._root = tree, root
        except (GitFailed, OSError) as error:
            log.warning("the last good revision cannot be read", error=str(error))

    async def _read_at(self, commit: str) -> tuple[_Root | None, Tree]:
        root = await self._begin(commit)
        if isinstance(root, SourceProblem):
            return None, Tree(problems=(root,))
        if self._good is not None and root == self._root and not self._stale:
            return root, replace(self._good, revision=await self._revision(commit))
        found = await self._listed(root)
        if found.problems:
            return root, Tree(problems=found.problems)
        await self._read_files(root, found)
        self._stale = False
        return root, replace(await self._gathered(root, found), revision=await self._revision(commit))

    async def _listed(self, root: _Root) -> Listed:
        found = await asyncio.to_thread(listed, await self._repository.entries(root.tree), root.only, self._largest)
        return replace(found, problems=tuple(replace(each, file=root.prefix + each.file) for each in found.problems))

    async def _begin(self, commit: str) -> _Root | SourceProblem:
        path = self._url.path
        entry = await self._repository.at(commit, path)
        if entry is None:
            return whole(path, f"is not in {commit[:12]}")
        if entry.mode == "040000":
            return _Root(entry.oid, f"{path}/" if path else "", "")
        if not entry.mode.startswith("100"):
            return whole(path, "is a link; links in a repository are not followed" if entry.mode == LINK else "is a submodule")
        above, _, name = path.rpartition("/")
        folder = await self._repository.at(commit, above)
        return _Root(folder.oid, f"{above}/" if above else "", name) if folder else whole(path, f"is not in {commit[:12]}")

    async def _revision(self, commit: str) -> Revision:
        applied = await self._remembered.last() or await self._repository.noted(APPLIED)
        rewrote = bool(applied) and applied != commit and not await self._repository.follows(commit, applied)
        history = await self._repository.history(commit, self._url.path)
        return Revision(commit, applied if rewrote else "", history.origin, history.removal)

    async def _read_files(self, root: _Root, found: Listed) -> None:
        """Reads the files that are new or changed, and forgets those that are gone."""
        names = {root.prefix + name: entry for name, entry in found.yaml.items()}
        kept = {name: file for name, file in self._files.items() if name in names and names[name].oid == file.oid}
        changed = {name: entry for name, entry in names.items() if name not in kept}
        blobs = await self._repository.blobs({entry.oid: entry.size for entry in changed.values()})
        contents = {name: blobs[entry.oid] for name, entry in changed.items()}
        read = await asyncio.to_thread(_read, contents, self._admit, self._sops)
        self._files = kept | {name: replace(file, oid=changed[name].oid) for name, file in read.items()}

    async def _gathered(self, root: _Root, found: Listed) -> Tree:
        async def fill(each: Declared, tenants: Mapping[str, str]) -> Document:
            return await self._packages.filled(each.document, each.place.file.removeprefix(root.prefix), found.files, tenants)

        self._packages.begin()
        files = [self._files[name] for name in sorted(self._files)]
        problems = [problem for file in files for problem in file.problems]
        documents = tuple(each for file in files for each in file.documents)
        locate = partial(_locate, {name: file.data for name, file in self._files.items()})
        return gathered(await with_packages(documents, fill, locate, problems), problems, locate)


def pause_s(interval_s: float, failures: int, shut: bool = False) -> float:
    """How long until the remote is asked again, after that many failures in a row.

    shut: it lets us not in, which only a person changes; who knocks often is locked out by many a forge.
    """
    if not failures:
        return interval_s
    if shut:
        return max(interval_s, LAST_RETRY_S)
    return min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 30), max(interval_s, LAST_RETRY_S))


def _read(contents: Mapping[str, bytes], admit: Admit, sops: Sops) -> dict[str, _File]:
    """Parses, decrypts and admits files. Blocks."""
    problems = [whole(name, "is a Git LFS pointer, not YAML") for name, data in contents.items() if data.startswith(_POINTER)]
    pointers = {problem.file for problem in problems}
    documents = declare(((name, data) for name, data in contents.items() if name not in pointers), admit, sops, problems)
    of: dict[str, list[Declared]] = {name: [] for name in contents}
    wrong: dict[str, list[SourceProblem]] = {name: [] for name in contents}
    for each in documents:
        of[each.place.file].append(each)
    for problem in problems:
        wrong[problem.file].append(problem)
    return {name: _File("", data, tuple(of[name]), tuple(wrong[name])) for name, data in contents.items()}


def _locate(contents: Mapping[str, bytes], place: Place, field: str) -> int:
    try:
        return line_of(contents[place.file], place, field)
    except Unreadable:
        return place.line


def _bounded(problems: Iterable[SourceProblem]) -> tuple[SourceProblem, ...]:
    problems = tuple(problems)
    if len(problems) <= MOST_PROBLEMS:
        return problems
    return (*problems[:MOST_PROBLEMS], whole(".", f"has {len(problems) - MOST_PROBLEMS:,} more problems"))
