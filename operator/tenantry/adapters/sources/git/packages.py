"""Packages whose sources lie in a repository: written to a folder that is named by what it holds, then built from there."""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from tenantry.adapters.sources.git.repository import Repository, TreeEntry
from tenantry.adapters.sources.packages import PackageFiles, check_relative, path_of, refused
from tenantry.model.resource import Document
from tenantry.model.tree import MANIFEST

LARGEST_PACKAGE = 2**30
_TOGETHER = 16 * 2**20
"""Bytes of files that are read at once; a larger file is written as it comes."""


class GitPackages:
    """Stores the packages that documents of a revision name by path."""

    def __init__(self, repository: Repository, packages: PackageFiles, folder: Path, most: int) -> None:
        """folder: where sources are written; it is its own; most: bytes of all that one revision names."""
        self._repository = repository
        self._packages = packages
        self._folder = folder
        self._used: set[str] = set()
        self._most, self._total = most, 0

    def begin(self) -> None:
        """A revision is read: what was named before does not count."""
        self._total = 0

    async def filled(self, package: Document, file: str, files: Mapping[str, TreeEntry], tenants: Mapping[str, str]) -> Document:
        """The Package with the sha256 of what its path names, seen from its file; others as they are.

        Raises PackageRefused, GitFailed.

        files: the regular files of the source's tree, by name.
        """
        path = path_of(package)
        if path is None:
            return package
        check_relative(path)
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        source = _named(path, target, files)
        self._total += sum(entry.size for entry in source.values())
        if self._total > self._most:
            raise refused(f"{path!r}: with it, the packages hold more than {self._most // 2**20} MiB")
        written = await self._written("app" if target == "." else posixpath.basename(target), source)
        return await self._packages.made(package, written, tenants)

    async def tidy(self) -> None:
        """Removes what nothing has named since the last call."""
        used, self._used = self._used, set()
        await asyncio.to_thread(_keep, self._folder, used)

    async def _written(self, name: str, source: Mapping[str, TreeEntry]) -> Path:
        """The folder, or the file, on this disk. It is whole, or not there."""
        digest = _digest(name, source)
        self._used.add(digest)
        whole = self._folder / digest
        if not await asyncio.to_thread(whole.exists):
            scratch = self._folder / f".{uuid4().hex}"
            try:
                await self._write(scratch, name, source)
                await asyncio.to_thread(scratch.rename, whole)
            finally:
                await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        return whole / name

    async def _write(self, scratch: Path, name: str, source: Mapping[str, TreeEntry]) -> None:
        for group in _groups(source):
            small = {entry.oid: entry.size for entry in group.values() if entry.size <= _TOGETHER}
            contents = await self._repository.blobs(small)
            for below, entry in group.items():
                target = scratch / name / below if below else scratch / name
                await asyncio.to_thread(target.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
                with await asyncio.to_thread(_created, target) as file:
                    if entry.oid in contents:
                        await asyncio.to_thread(file.write, contents[entry.oid])
                    else:
                        await self._repository.blob_into(entry.oid, file)


def _named(path: str, target: str, files: Mapping[str, TreeEntry]) -> dict[str, TreeEntry]:
    """The files at a target, by their names below it; `""` is a file itself. path: as it is declared. Raises PackageRefused."""
    if target == ".." or target.startswith("../"):
        raise refused(f"{path!r} leads out of the directory")
    if target in files:
        found = {"": files[target]}
    else:
        prefix = "" if target == "." else f"{target}/"
        found = {name.removeprefix(prefix): entry for name, entry in files.items() if name.startswith(prefix)}
        if found and MANIFEST not in found:
            raise refused(f"{path!r} holds no app.yaml")
    if not found:
        raise refused(f"{path!r} does not exist")
    if sum(entry.size for entry in found.values()) > LARGEST_PACKAGE:
        raise refused(f"{path!r} holds more than {LARGEST_PACKAGE // 2**20} MiB")
    return found


def _groups(source: Mapping[str, TreeEntry]) -> Iterator[dict[str, TreeEntry]]:
    group: dict[str, TreeEntry] = {}
    total = 0
    for name, entry in source.items():
        if group and total + entry.size > _TOGETHER:
            yield group
            group, total = {}, 0
        group[name] = entry
        total += entry.size
    yield group


def _created(path: Path) -> BinaryIO:
    """A new file: where the disk takes two names for one, the second is an error."""
    return path.open("xb")


def _digest(name: str, source: Mapping[str, TreeEntry]) -> str:
    told = "\0".join((name, *(f"{below}\0{entry.oid}" for below, entry in sorted(source.items()))))
    return hashlib.sha256(told.encode()).hexdigest()


def _keep(folder: Path, used: set[str]) -> None:
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.name not in used:
            shutil.rmtree(each)
