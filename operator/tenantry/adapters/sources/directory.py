"""A directory tree of YAML as a source: found, read, admitted, its packages built and stored."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tenantry.adapters.sources.documents import (
    LARGEST_TREE,
    MOST_FILES,
    Admit,
    declare,
    line_of,
    whole,
    with_packages,
)
from tenantry.adapters.sources.ignoring import IGNORE_FILE, LARGEST_IGNORE_FILE, BadPatternError, IgnoreRules, patterns_of
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.read import LARGEST_FILE, Unreadable
from tenantry.adapters.sources.sops import Sops
from tenantry.model.resource import Document
from tenantry.model.tree import MANIFEST, Declared, Place, SourceProblem, Tree, gathered, is_yaml
from tenantry.model.verdicts import Problem

DEEPEST = 64
"""Folders below the root at most."""
SETTLE_S = 1.0
"""The time that a file without declarations must stay so before that is believed."""
Settle = Callable[[], Awaitable[None]]


async def _moment() -> None:
    await asyncio.sleep(SETTLE_S)


@dataclass(frozen=True)
class _File:
    """One YAML file. name: relative to the root, with `/`."""

    path: Path
    name: str


class Directory:
    """Reads a folder, or a single file, again and again.

    It remembers which files declared something. One that suddenly declares nothing, is gone, or cannot be parsed may be half
    written: it is read again after `settle`, and what it is then counts.
    """

    def __init__(
        self,
        root: Path,
        admit: Admit,
        packages: PackageFiles,
        sops: Sops | None = None,
        settle: Settle = _moment,
        strict: bool = False,
    ) -> None:
        """strict: documents of other programs are problems, and are not passed over."""
        self.read_at = 0.0
        """The start of the last reading, in seconds since the epoch."""
        self._settle = settle
        self._declaring: frozenset[str] = frozenset()
        self._folder = root if root.is_dir() else root.parent
        self._only = None if root.is_dir() else root
        self._admit = admit
        self._packages = packages
        self._sops = sops or Sops()
        self._strict = strict

    async def read(self) -> Tree:
        """Return the present declarations of the directory. Bad input does not raise: the tree's problems list it.

        Raises OSError when the directory itself is gone or cannot be listed.
        """
        self.read_at = time.time()
        documents, problems, others, empty = await asyncio.to_thread(self._read_files)
        if self._declaring - _sound(documents, problems):
            await self._settle()
            documents, problems, others, empty = await asyncio.to_thread(self._read_files)
        self._declaring = _sound(documents, problems)
        documents = await with_packages(documents, self._filled, self._locate, problems)
        return replace(gathered(documents, problems, self._locate, len(others)), empty=empty)

    def _read_files(self) -> tuple[tuple[Declared, ...], list[SourceProblem], list[Place], frozenset[str]]:
        """The documents, the problems, the places of documents of other programs, and the files without a document."""
        problems: list[SourceProblem] = []
        others: list[Place] = []
        names: set[str] = set()

        def contents() -> Iterator[tuple[str, bytes]]:
            for file, data in self._contents(problems):
                names.add(file.name)
                yield file.name, data

        documents = declare(contents(), self._admit, self._sops, problems, None if self._strict else others)
        full = {place.file for place in (*(each.place for each in documents), *others)} | {each.file for each in problems}
        return documents, problems, others, frozenset(names - full)

    def _contents(self, problems: list[SourceProblem]) -> Iterator[tuple[_File, bytes]]:
        """The files with their bytes; what cannot be read is added to the problems."""
        total = 0
        for found in self._files():
            if isinstance(found, SourceProblem):
                problems.append(found)
                continue
            try:
                data = _content(found.path)
            except OSError as error:
                problems.append(whole(found.name, f"cannot be read: {error.strerror}"))
                continue
            total += len(data)
            if total > LARGEST_TREE:
                problems.append(whole(found.name, f"with it, the files hold more than {LARGEST_TREE // 2**20} MiB"))
                return
            yield found, data

    def _files(self) -> Iterator[_File | SourceProblem]:
        if self._only is not None:
            yield _File(self._only, self._only.name)
            return
        try:
            rules = IgnoreRules(_patterns(self._folder / IGNORE_FILE))
            for count, found in enumerate(_walk(self._folder, self._folder.resolve(), "", rules)):
                if count >= MOST_FILES:
                    yield whole(".", f"holds more than {MOST_FILES:,} YAML files")
                    return
                yield found
        except BadPatternError as error:
            yield SourceProblem(IGNORE_FILE, error.line, Problem("", str(error)))

    async def _filled(self, each: Declared, tenants: Mapping[str, str]) -> Document:
        return await self._packages.filled(each.document, (self._folder / each.place.file).parent, self._folder, tenants)

    def _locate(self, place: Place, field: str) -> int:
        """The line of a field in the file as it is now; the document's first when the file is gone or unreadable."""
        try:
            return line_of(_content(self._folder / place.file), place, field)
        except (OSError, Unreadable):
            return place.line


def _sound(documents: tuple[Declared, ...], problems: list[SourceProblem]) -> frozenset[str]:
    """The files that declare something, and have no problem."""
    return frozenset(each.place.file for each in documents) - {each.file for each in problems}


def _patterns(file: Path) -> list[str]:
    """The lines of the folder's ignore file, none where there is no file. Raises BadPatternError."""
    try:
        with file.open("rb") as stream:
            return patterns_of(stream.read(LARGEST_IGNORE_FILE + 1))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadPatternError(0, f"cannot be read: {error.strerror}") from error


def _walk(folder: Path, root: Path, prefix: str, rules: IgnoreRules) -> Iterator[_File | SourceProblem]:
    """The YAML files below a folder, in order of name; links are followed to files inside the tree alone.

    Raises OSError when the root itself cannot be listed.
    """
    if prefix.count("/") > DEEPEST:
        yield whole(prefix[:200], f"is nested deeper than {DEEPEST} folders")
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        if not prefix:
            raise
        yield whole(prefix, f"cannot be listed: {error.strerror}")
        return
    if prefix and any(entry.name == MANIFEST for entry in entries):
        return
    for entry in entries:
        name = prefix + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(".") or rules.leaves_out(name, is_folder):
            continue
        if is_folder:
            yield from _walk(Path(entry.path), root, f"{name}/", rules)
        elif is_yaml(entry.name) or (entry.is_symlink() and entry.is_dir()):
            yield from _file(entry, root, name)


def _file(entry: os.DirEntry[str], root: Path, name: str) -> Iterator[_File | SourceProblem]:
    path = Path(entry.path)
    if entry.is_symlink():
        path = path.resolve()
        if not path.is_relative_to(root):
            yield whole(name, "is a link that leads out of the directory")
            return
    if entry.is_file():
        yield _File(path, name)
    elif not entry.is_dir():
        yield whole(name, "is a link to nothing" if entry.is_symlink() else "is not a regular file")


def _content(path: Path) -> bytes:
    """The bytes of a file, and one more than allowed at most."""
    with path.open("rb") as stream:
        return stream.read(LARGEST_FILE + 1)
