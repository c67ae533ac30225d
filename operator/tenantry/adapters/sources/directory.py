"""A directory tree of YAML as a source: found, read, admitted, its packages built and stored."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenantry.adapters.sources.packages import PackageFiles, Refused, tenants_of
from tenantry.adapters.sources.read import LARGEST_FILE, Unreadable, locate, read
from tenantry.model.resource import Document
from tenantry.model.tree import Declared, Place, SourceProblem, Tree
from tenantry.model.verdicts import Invalid, Problem

Admit = Callable[[Document], Document]
"""Defaults and validation of a new document. Raises Invalid."""

SUFFIXES = (".yaml", ".yml")
MANIFEST = "app.yaml"
MOST_FILES = 50_000
LARGEST_TREE = 256 * 2**20


@dataclass(frozen=True)
class _File:
    """One YAML file. name: relative to the root, with `/`."""

    path: Path
    name: str


class Directory:
    """Reads a folder, or a single file. It can be read again and again: it keeps no state but what packages it stored."""

    def __init__(self, root: Path, admit: Admit, packages: PackageFiles) -> None:
        self._folder = root if root.is_dir() else root.parent
        self._only = None if root.is_dir() else root
        self._admit = admit
        self._packages = packages

    async def read(self) -> Tree:
        """What the directory declares now. Never raises for bad input: that is told by the tree's problems.

        Raises OSError when the directory itself is gone or cannot be listed.
        """
        documents, problems = await asyncio.to_thread(self._read_files)
        documents, refused = await self._with_packages(documents)
        problems = (*problems, *refused, *_declared_twice(documents))
        broken = {problem.file for problem in problems}
        sound = tuple(each for each in documents if each.place.file not in broken)
        return Tree(sound, tuple(sorted(problems, key=lambda p: (p.file, p.line))), self._locate)

    def _read_files(self) -> tuple[tuple[Declared, ...], tuple[SourceProblem, ...]]:
        """Reads all files, then parses all, then admits all: measured a third faster than one file after the other."""
        problems: list[SourceProblem] = []
        contents = list(self._contents(problems))
        parsed = [(data, _parsed(file, data, problems)) for file, data in contents]
        documents: list[Declared] = []
        for data, parts in parsed:
            digest = hashlib.sha256(data).hexdigest()
            for place, value in parts:
                try:
                    documents.append(Declared(self._admitted(value), place, digest))
                except Invalid as error:
                    problems += [_at(place, problem, _line(data, place, problem.field)) for problem in error.problems]
        return tuple(documents), tuple(problems)

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
                problems.append(_whole(found.name, f"cannot be read: {error.strerror}"))
                continue
            total += len(data)
            if total > LARGEST_TREE:
                problems.append(_whole(found.name, f"with it the files hold more than {LARGEST_TREE // 2**20} MiB"))
                return
            yield found, data

    def _files(self) -> Iterator[_File | SourceProblem]:
        if self._only is not None:
            yield _File(self._only, self._only.name)
            return
        for count, found in enumerate(_walk(self._folder, self._folder.resolve(), "")):
            if count >= MOST_FILES:
                yield _whole(".", f"holds more than {MOST_FILES:,} YAML files")
                return
            yield found

    def _admitted(self, value: Any) -> Document:
        if not isinstance(value, dict):
            raise Invalid((Problem("", "must be a mapping with apiVersion, kind and metadata"),))
        return self._admit(value)

    async def _with_packages(self, documents: tuple[Declared, ...]) -> tuple[tuple[Declared, ...], tuple[SourceProblem, ...]]:
        """The documents with the sha256 of every package that a path names."""
        tenants = tenants_of(each.document for each in documents)
        filled, problems = [], []
        for each in documents:
            if each.document["kind"] == "Package":
                folder = (self._folder / each.place.file).parent
                try:
                    document = await self._packages.filled(each.document, folder, self._folder, tenants)
                except Refused as error:
                    problems += [_at(each.place, p, self._locate(each.place, p.field)) for p in error.problems]
                    continue
                filled.append(replace(each, document=document))
            else:
                filled.append(each)
        return tuple(filled), tuple(problems)

    def _locate(self, place: Place, field: str) -> int:
        """The line of a field in the file as it is now; the document's first when the file is gone or unreadable."""
        try:
            return _line(_content(self._folder / place.file), place, field)
        except (OSError, Unreadable):
            return place.line


def _walk(folder: Path, root: Path, prefix: str) -> Iterator[_File | SourceProblem]:
    """The YAML files below a folder, in order of name; links are followed to files inside the tree alone.

    Raises OSError when the root itself cannot be listed.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        if not prefix:
            raise
        yield _whole(prefix, f"cannot be listed: {error.strerror}")
        return
    if prefix and any(entry.name == MANIFEST for entry in entries):
        return
    for entry in entries:
        name = prefix + entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), root, f"{name}/")
        elif entry.name.endswith(SUFFIXES) or (entry.is_symlink() and entry.is_dir()):
            yield from _file(entry, root, name)


def _file(entry: os.DirEntry[str], root: Path, name: str) -> Iterator[_File | SourceProblem]:
    path = Path(entry.path)
    if entry.is_symlink():
        path = path.resolve()
        if not path.is_relative_to(root):
            yield _whole(name, "is a link that leads out of the directory")
            return
    if entry.is_file():
        yield _File(path, name)
    elif not entry.is_dir():
        yield _whole(name, "is a link to nothing" if entry.is_symlink() else "is not a regular file")


def _content(path: Path) -> bytes:
    """The bytes of a file, and one more than allowed at most."""
    with path.open("rb") as stream:
        return stream.read(LARGEST_FILE + 1)


def _parsed(file: _File, data: bytes, problems: list[SourceProblem]) -> list[tuple[Place, Any]]:
    """The documents of a file; none of a broken one, which is added to the problems."""
    try:
        return list(_parts(data, file.name))
    except Unreadable as error:
        problems.append(SourceProblem(file.name, error.line, Problem("", error.reason)))
        return []


def _parts(data: bytes, name: str) -> Iterator[tuple[Place, Any]]:
    """Each document with its place; a `List` counts for its items. Raises Unreadable."""
    for raw in read(data):
        value, place = raw.value, Place(name, raw.line, raw.number)
        if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
            for number, item in enumerate(value["items"]):
                yield place._replace(line=locate(data, raw.number, number, ""), item=number), item
        else:
            yield place, value


def _line(data: bytes, place: Place, field: str) -> int:
    return locate(data, place.document, place.item, field) if field else place.line


def _declared_twice(documents: tuple[Declared, ...]) -> Iterator[SourceProblem]:
    first: dict[Any, Place] = {}
    for each in documents:
        if each.ref in first:
            yield _at(each.place, Problem("metadata.name", f"{each.ref} is already declared at {first[each.ref]}"))
        else:
            first[each.ref] = each.place


def _at(place: Place, problem: Problem, line: int = 0) -> SourceProblem:
    return SourceProblem(place.file, line or place.line, problem)


def _whole(file: str, reason: str) -> SourceProblem:
    return SourceProblem(file, 0, Problem("", reason))
