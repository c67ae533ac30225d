"""Packages that a declaration names by path: built from a folder or taken as a file, stored, and their sha256 filled in."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from tenantry.kinds.tenancy import holder_of
from tenantry.model.facts import PackageFacts
from tenantry.model.resource import Document
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.build import walked
from tenantry.ports import PackageView

Build = Callable[[Path, Path], object]
"""Writes the package of a source folder (first) to a file (second). Raises Invalid."""

PATH_FIELD = "spec.source.path"
_Stamp = tuple[tuple[str, int, int], ...]


class PackageRefused(Invalid):
    """The Package cannot be made of what its path names."""


class PackageStore(PackageView, Protocol):
    """The part of ports.Packages that a source needs."""

    async def put(self, tenant: str, package: Path) -> PackageFacts:
        """Checks and stores a package file. Raises Invalid."""


class PackageFiles:
    """Builds and stores what paths name; what has not changed since is not built again."""

    def __init__(self, packages: PackageStore, build: Build, work: Path | None = None) -> None:
        """work: where packages are built before they are stored; the system's temporary folder where None."""
        self._packages = packages
        self._build = build
        self._work = work
        self._stored: dict[tuple[str, Path], tuple[_Stamp, str]] = {}

    async def filled(self, package: Document, folder: Path, root: Path, tenants: Mapping[str, str]) -> Document:
        """The Package with the sha256 of what its path names, seen from `folder` and inside `root`; others as they are.

        tenants: names by namespace. Raises PackageRefused.
        """
        path = path_of(package)
        if path is None:
            return package
        return await self.made(package, await asyncio.to_thread(_inside, path, folder, root), tenants)

    async def made(self, package: Document, target: Path, tenants: Mapping[str, str]) -> Document:
        """The Package with the sha256 of the folder or file `target`, built and stored. Raises PackageRefused."""
        spec = package["spec"]
        facts = await self._store(holder_of(package, tenants), target, spec["source"]["path"])
        problems = tuple(_differences(spec, facts, spec["source"]["path"]))
        if problems:
            raise PackageRefused(problems)
        return {**package, "spec": {**spec, "sha256": facts.sha256}}

    async def _store(self, tenant: str, target: Path, path: str) -> PackageFacts:
        try:
            stamp = await asyncio.to_thread(_stamp, target)
            before, sha256 = self._stored.get((tenant, target), ((), ""))
            if before == stamp and (known := await self._packages.inspect(tenant, sha256)) is not None:
                return known
            facts = await self._put(tenant, target)
        except Invalid as error:
            inside = f"{path}/" if await asyncio.to_thread(target.is_dir) else f"{path}: "
            raise PackageRefused(tuple(Problem(PATH_FIELD, f"{inside}{problem}") for problem in error.problems)) from error
        self._stored[tenant, target] = stamp, facts.sha256
        return facts

    async def _put(self, tenant: str, target: Path) -> PackageFacts:
        if not await asyncio.to_thread(target.is_dir):
            return await self._packages.put(tenant, target)
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            built = Path(folder) / f"{target.name}.tapp"
            await asyncio.to_thread(self._build, target, built)
            return await self._packages.put(tenant, built)


def path_of(package: Document) -> str | None:
    """The path that a Package names, or None."""
    path = (package["spec"].get("source") or {}).get("path")
    return None if path is None else str(path)


def _inside(path: str, folder: Path, root: Path) -> Path:
    """Return the target of a path. Raises PackageRefused if it is outside of the tree, also by a link, or missing."""
    check_relative(path)
    target = (folder / path).resolve()
    if not target.is_relative_to(root.resolve()):
        raise refused(f"{path!r} leads out of the directory")
    if target.is_dir() and not (target / "app.yaml").is_file():
        raise refused(f"{path!r} holds no app.yaml")
    if not target.is_dir() and not target.is_file():
        raise refused(f"{path!r} does not exist")
    return target


def _stamp(target: Path) -> _Stamp:
    """Return names, sizes and times of all that a package is made of: equal while nothing was written. Raises Invalid."""
    files = [target] if target.is_file() else [each for each in walked(target) if each.is_symlink() or not each.is_dir()]
    stats = ((str(file), file.lstat()) for file in sorted(files))
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _differences(spec: Mapping[str, object], facts: PackageFacts, path: str) -> Iterable[Problem]:
    for field, real in (("app", facts.app), ("version", facts.version), ("sha256", facts.sha256)):
        declared = spec.get(field)
        if declared not in (None, real):
            yield Problem(f"spec.{field}", f"is {declared!r}, but the package at {path!r} has {real!r}")


def check_relative(path: str) -> None:
    """Raises PackageRefused for a path that is none, or not a relative one."""
    if PurePosixPath(path).is_absolute() or "\\" in path or "\0" in path:
        raise refused(f"{path!r} must be relative to the YAML file, with /")


def refused(reason: str) -> PackageRefused:
    """Return the refusal of a Package's path."""
    return PackageRefused((Problem(PATH_FIELD, f"Invalid value: {reason}"),))
