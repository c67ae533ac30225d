"""The files of a repository, read by content: what did not change is not read again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tenantry.adapters.sources.documents import Admit, declare, line_of, whole, with_packages
from tenantry.adapters.sources.git.packages import GitPackages
from tenantry.adapters.sources.git.repository import Repository, TreeEntry
from tenantry.adapters.sources.git.state import Root
from tenantry.adapters.sources.git.tree import ListedTree, listed
from tenantry.adapters.sources.ignoring import IGNORE_FILE, BadPatternError, IgnoreRules, check_size, patterns_of
from tenantry.adapters.sources.read import Unreadable
from tenantry.adapters.sources.sops import Sops
from tenantry.model.resource import Document
from tenantry.model.tree import Declared, Place, SourceProblem, Tree, gathered
from tenantry.model.verdicts import Problem
from tenantry.packages.check import LFS_POINTER


@dataclass(frozen=True, slots=True)
class _File:
    """One YAML file as it was read. documents: their Packages not filled in."""

    oid: str
    data: bytes
    documents: tuple[Declared, ...]
    problems: tuple[SourceProblem, ...]
    passed_over: int = 0

    @property
    def sealed(self) -> bool:
        return any(each.sealed for each in self.documents)


@dataclass(frozen=True)
class FileChoice:
    """The files and documents that a source reads. largest: bytes of all its YAML.

    ignore: patterns of files that are left out, besides those of the repository's IGNORE_FILE; strict: documents of other
    programs are problems.
    """

    largest: int
    ignore: Sequence[str] = ()
    strict: bool = False


class SourceFiles:
    """The YAML files of a source, and the objects that they declare."""

    def __init__(self, repository: Repository, admit: Admit, packages: GitPackages, sops: Sops, choice: FileChoice) -> None:
        self._repository = repository
        self._admit = admit
        self._packages = packages
        self._sops, self._stamp = sops, sops.stamp()
        self._choice = choice
        self._files: dict[str, _File] = {}
        self.stale = False
        """True while encrypted files are those of other keys than the present ones."""

    async def other_keys(self) -> bool:
        """Return True if the key file has changed or gone since the last read. Encrypted files are then read again."""
        before, self._stamp = self._stamp, await asyncio.to_thread(self._sops.stamp)
        if before == self._stamp:
            return False
        self._files = {name: file for name, file in self._files.items() if not file.problems and not file.sealed}
        self.stale = True
        return True

    def content(self, file: str) -> bytes | None:
        """Return the bytes of a YAML file as it was read last, None for one that was not."""
        held = self._files.get(file)
        return held.data if held else None

    async def read(self, root: Root) -> Tree:
        """Return the declarations below a root, or its problems. Raises GitFailed."""
        found = await self.listed(root)
        if found.problems:
            return Tree(problems=found.problems)
        await self._read_files(root, found)
        self.stale = False
        return await self._gathered(root, found)

    async def listed(self, root: Root) -> ListedTree:
        """Return the files below a root. Raises GitFailed."""
        entries = await self._repository.entries(root.tree)
        try:
            rules = await self._rules(entries)
            found = await asyncio.to_thread(listed, entries, root.only, self._choice.largest, rules)
        except BadPatternError as error:
            return ListedTree({}, {}, (SourceProblem(root.prefix + IGNORE_FILE, error.line, Problem("", str(error))),))
        return replace(found, problems=tuple(replace(each, file=root.prefix + each.file) for each in found.problems))

    async def _rules(self, entries: Iterable[TreeEntry]) -> IgnoreRules:
        """Raises BadPatternError, GitFailed."""
        lines: list[str] = []
        file = next((each for each in entries if each.path == IGNORE_FILE.encode() and each.mode.startswith("100")), None)
        if file is not None:
            check_size(file.size)
            blobs = await self._repository.blobs({file.oid: file.size})
            lines = patterns_of(blobs[file.oid])
        try:
            return IgnoreRules([*lines, *self._choice.ignore])
        except BadPatternError as error:
            if error.line <= len(lines):
                raise
            raise BadPatternError(0, f"spec.ignore[{error.line - len(lines) - 1}]: {error}") from None

    async def _read_files(self, root: Root, found: ListedTree) -> None:
        """Reads the files that are new or changed, and forgets those that are gone."""
        names = {root.prefix + name: entry for name, entry in found.yaml.items()}
        kept = {name: file for name, file in self._files.items() if name in names and names[name].oid == file.oid}
        changed = {name: entry for name, entry in names.items() if name not in kept}
        blobs = await self._repository.blobs({entry.oid: entry.size for entry in changed.values()})
        contents = {name: blobs[entry.oid] for name, entry in changed.items()}
        read = await asyncio.to_thread(_read, contents, self._admit, self._sops, self._choice.strict)
        self._files = kept | {name: replace(file, oid=changed[name].oid) for name, file in read.items()}

    async def _gathered(self, root: Root, found: ListedTree) -> Tree:
        async def fill(each: Declared, tenants: Mapping[str, str]) -> Document:
            return await self._packages.filled(each.document, each.place.file.removeprefix(root.prefix), found.files, tenants)

        self._packages.begin()
        files = [self._files[name] for name in sorted(self._files)]
        problems = [problem for file in files for problem in file.problems]
        documents = tuple(each for file in files for each in file.documents)
        locate = partial(_locate, {name: file.data for name, file in self._files.items()})
        passed_over = sum(file.passed_over for file in files)
        return gathered(await with_packages(documents, fill, locate, problems), problems, locate, passed_over)


def _read(contents: Mapping[str, bytes], admit: Admit, sops: Sops, strict: bool) -> dict[str, _File]:
    """Parses, decrypts and admits files. Blocks."""
    problems = [whole(name, "is a Git LFS pointer, not YAML") for name, data in contents.items() if data.startswith(LFS_POINTER)]
    pointers = {problem.file for problem in problems}
    places: list[Place] = []
    read = ((name, data) for name, data in contents.items() if name not in pointers)
    documents = declare(read, admit, sops, problems, None if strict else places)
    passed_over = Counter(place.file for place in places)
    of: dict[str, list[Declared]] = {name: [] for name in contents}
    wrong: dict[str, list[SourceProblem]] = {name: [] for name in contents}
    for each in documents:
        of[each.place.file].append(each)
    for problem in problems:
        wrong[problem.file].append(problem)
    return {name: _File("", data, tuple(of[name]), tuple(wrong[name]), passed_over[name]) for name, data in contents.items()}


def _locate(contents: Mapping[str, bytes], place: Place, field: str) -> int:
    try:
        return line_of(contents[place.file], place, field)
    except Unreadable:
        return place.line
