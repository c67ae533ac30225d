"""The package files that an engine holds, each visible by one rename, and the unpacked static files of what is installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from tenantry.model.facts import Download
from tenantry.model.verdicts import NotFound
from tenantry.packages.check import CONTENT, SYMBOLS, is_whole, open_checked, sha256_of
from tenantry.packages.manifest import Manifest
from tenantry.rest.disk import make_durable, writing_to_disk

MANIFESTS_KEPT = 4
"""Parsed manifests of stored packages: a plan and its install read the same."""
SUFFIX, SYMBOLS_SUFFIX = ".tapp", ".sym"


class PackageOrigin(Protocol):
    """The packages of one engine where they are kept, if its folder has only copies. Blocks. Its calls raise Halt."""

    def put(self, sha256: str, package: Path) -> None:
        """Keep a package. Idempotent."""

    def has(self, sha256: str) -> bool:
        """Return True if it is kept."""

    def fetch(self, sha256: str, target: Path) -> None:
        """Write the package to a file. Raises NotFound."""

    def has_only(self, packages: Collection[str]) -> bool:
        """Return True if `keep_only` would let nothing go."""

    def keep_only(self, packages: Collection[str]) -> None:
        """Let all others go, but for those that came a moment ago: their records may not be committed yet."""


class PackageFolder:
    """Files below one folder. Blocks. origin: has the packages that are not here yet."""

    def __init__(self, folder: Path, origin: PackageOrigin | None = None) -> None:
        self._folder = folder
        self._origin = origin
        self._unpacking = threading.Lock()
        """Of requests that want the same files at once."""
        self._packages = folder / "packages"
        self._content = folder / "content"
        self._symbols = folder / "symbols"

    def path(self, sha256: str) -> Path:
        """Return the path of the package with those bytes. It is brought from the origin if it is not here. Raises Halt there."""
        path = self._path(sha256)
        if self._origin is not None and not path.exists():
            self._bring(self._origin, sha256, path)
        return path

    def holds(self, sha256: str) -> bool:
        """Return True if the package with those bytes is here or at the origin."""
        return self._path(sha256).exists() or (self._origin is not None and self._origin.has(sha256))

    def vouches(self, sha256: str) -> bool:
        """Return True if the records may name that package without a look into its file: it is here, or is brought when it is
        needed. Does not ask the origin."""
        return self._origin is not None or self._path(sha256).exists()

    def _path(self, sha256: str) -> Path:
        return self._packages / f"{sha256}{SUFFIX}"

    def _bring(self, origin: PackageOrigin, sha256: str, target: Path) -> None:
        self._packages.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            origin.fetch(sha256, scratch)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)

    def put(self, package: Path, sha256: str) -> None:
        """Takes a checked file in. Idempotent; replaces a file that has other bytes."""
        if self._origin is not None:
            self._origin.put(sha256, package)
        target = self._path(sha256)
        if is_whole(target, sha256):
            return
        with writing_to_disk():
            self._packages.mkdir(parents=True, exist_ok=True)
            scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
            try:
                # A copy, not a link: a process that still writes to that file must not change the stored bytes.
                shutil.copyfile(package, scratch)
                make_durable(scratch)
                scratch.replace(target)
                make_durable(self._packages)
            finally:
                scratch.unlink(missing_ok=True)

    def has_only(self, packages: Collection[str], installed: Collection[str]) -> bool:
        """Return True if `keep_only` would remove nothing."""
        if any(self._leftovers(packages, installed)):
            return False
        return self._origin is None or self._origin.has_only(packages)

    def keep_only(self, packages: Collection[str], installed: Collection[str]) -> None:
        """Removes what no record names: leftovers of interrupted uploads, installs and deletions."""
        if self._origin is not None:
            self._origin.keep_only(packages)
        for path in self._leftovers(packages, installed):
            if path.parent == self._content:
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _leftovers(self, packages: Collection[str], installed: Collection[str]) -> Iterator[Path]:
        """The files of packages and symbols, and the folders of content, that are not of those packages."""
        yield from _others(self._packages, {f"{sha256}{SUFFIX}" for sha256 in packages})
        yield from _others(self._content, frozenset(installed))
        yield from _others(self._symbols, {f"{sha256}{SYMBOLS_SUFFIX}" for sha256 in packages})

    @contextmanager
    def unpacked(self, sha256: str) -> Iterator[None]:
        """Unpack the static files. Until the end of the block, which records them, no other process takes them for leftovers."""
        with self._locked(fcntl.LOCK_SH):
            self._unpack(sha256)
            yield

    @contextmanager
    def swept(self) -> Iterator[bool]:
        """Keep other processes from unpacking. False, and nothing is kept, while one does: a later sweep finds what is left."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)

    def _unpack(self, sha256: str) -> None:
        """By one rename. Idempotent."""
        target = self._content / sha256
        if target.exists():
            return
        scratch = self._content / f".{sha256}.{os.getpid()}-{threading.get_ident()}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        with writing_to_disk(), open_checked(self.path(sha256)) as package:
            try:
                scratch.mkdir(parents=True)
                for name in package.content():
                    path = scratch / name.removeprefix(CONTENT)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with package.archive.open(name) as source, path.open("wb") as out:
                        shutil.copyfileobj(source, out)
                try:
                    scratch.replace(target)
                except OSError:
                    if not target.exists():  # else another process was faster
                        raise
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def content(self, sha256: str) -> Path | None:
        """The folder of the static files, or None where there are none here."""
        folder = self._content / sha256
        return folder if folder.is_dir() else None

    def brought_content(self, sha256: str) -> Path | None:
        """The same for a package that another process has installed; None without an origin."""
        if self._origin is not None:
            with self._unpacking, self.unpacked(sha256):
                pass
        return self.content(sha256)

    def download(self, sha256: str, filename: str) -> Download:
        """The package file to serve."""
        path = self.path(sha256)
        return Download(path, filename, path.stat().st_size, sha256)

    def symbols(self, sha256: str, filename: str) -> Download:
        """The symbol file to serve, unpacked on its first use. Raises NotFound."""
        path = self._symbols / f"{sha256}{SYMBOLS_SUFFIX}"
        if not path.exists():
            scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
            with writing_to_disk(), open_checked(self.path(sha256)) as package:
                if not package.has_symbols:
                    raise NotFound("this version has no symbol file")
                self._symbols.mkdir(parents=True, exist_ok=True)
                try:
                    with package.archive.open(SYMBOLS) as source, scratch.open("wb") as out:
                        shutil.copyfileobj(source, out)
                    scratch.replace(path)
                finally:
                    scratch.unlink(missing_ok=True)
        return Download(path, filename, path.stat().st_size, sha256_of(path))


class StoredManifests:
    """The manifests of the packages in a folder, by the SHA-256 in the names of their files. Blocks."""

    def __init__(self, files: PackageFolder) -> None:
        self._files = files
        self._known: dict[str, Manifest] = {}

    def manifest(self, sha256: str) -> Manifest:
        """Return the manifest in the file of that name. Raises Halt."""
        known = self._known.get(sha256)
        if known is None:
            with open_checked(self._files.path(sha256)) as package:
                known = self._known[sha256] = package.manifest
            if len(self._known) > MANIFESTS_KEPT:
                self._known.pop(next(iter(self._known)), None)
        return known

    def is_itself(self, sha256: str) -> bool:
        """Return True if the file of that name has these bytes: a restored backup brings files by any name. Raises Halt."""
        return is_whole(self._files.path(sha256), sha256)


def _others(folder: Path, names: Collection[str]) -> list[Path]:
    """The entries of a folder, which may be missing, that have other names."""
    try:
        return [folder / name for name in os.listdir(folder) if name not in names]  # noqa: PTH208 - paths cost more than the call
    except (FileNotFoundError, NotADirectoryError):
        return []
