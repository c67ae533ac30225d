"""Package bytes and long texts in a local folder.

    <root>/_pool/<sha256>.tapp       the bytes, once
    <root>/<tenant>/<sha256>.tapp    a hard link to them: the tenant has them (`_shared`: all have)
    <root>/_incoming/                what is being stored; emptied at start
    <root>/_texts/<name>             logs of Operations

Tenants' names never start with `_`. One process at a time owns the folder.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenantry.adapters.store.state_folder import StateUnwritable
from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Invalid, NotFound
from tenantry.packages.check import is_whole, sha256_of
from tenantry.rest.disk import make_durable

Check = Callable[[Path], PackageFacts]
"""Check a package file and return its facts, with a computed sha256. Blocks. Raises Invalid."""

SHARED = "_shared"
SUFFIX = ".tapp"
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}\Z")


class FolderBlobs:
    """ports.Packages, and texts by name."""

    def __init__(self, root: Path, check: Check, read: Check | None = None) -> None:
        """Makes the folder where it is missing and removes what interrupted writes left. Blocks. Raises StateUnwritable.

        read: checks a file that is stored already, which rules that came later do not refuse; `check` where None.
        """
        self._root = root
        self._check = check
        self._read = read or check
        self._facts: dict[str, PackageFacts] = {}
        self._linking = threading.Lock()
        self._pool = root / "_pool"
        self._texts = root / "_texts"
        self.incoming = root / "_incoming"
        """The folder for incoming uploads: `put` moves a file from here instead of copying it."""
        with self._writing():
            if self.incoming.exists():
                shutil.rmtree(self.incoming)
            for folder in (self._pool, self._texts, self.incoming):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._pool.iterdir():
                _drop_unless_linked(path)

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        """A file inside `incoming` is taken over, stored or not; any other is copied. Raises Invalid, StateUnwritable."""
        return await asyncio.to_thread(self._put, self._folder(tenant), package, checked)

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        path = self._path(tenant, sha256)
        return await asyncio.to_thread(self._inspect, path, sha256)

    async def fetch(self, tenant: str, sha256: str) -> Path:
        path = self._path(tenant, sha256)
        if not await asyncio.to_thread(path.exists):
            raise NotFound(f"package {sha256} is not stored for {tenant or 'all tenants'}")
        return path

    async def remove(self, tenant: str, sha256: str) -> None:
        await asyncio.to_thread(self._remove, self._path(tenant, sha256), sha256)

    async def remove_all(self, tenant: str) -> None:
        folder = self._folder(tenant)
        await asyncio.to_thread(self._remove_all, folder)

    async def sizes(self, tenant: str) -> dict[str, int]:
        """Bytes of each package that the tenant has, by sha256."""
        folder = self._folder(tenant)
        return await asyncio.to_thread(_sizes, folder)

    async def put_text(self, name: str, text: bytes) -> None:
        """Stores or replaces a text, durably. Raises StateUnwritable, NotFound for a name that cannot be one."""
        await asyncio.to_thread(self._put_text, self._text(name), text)

    async def get_text(self, name: str) -> bytes:
        """Raises NotFound."""
        path = self._text(name)
        try:
            return await asyncio.to_thread(path.read_bytes)
        except FileNotFoundError:
            raise NotFound(f"{name} is not stored") from None

    async def remove_text(self, name: str) -> None:
        """Idempotent."""
        await asyncio.to_thread(self._text(name).unlink, missing_ok=True)

    def _put(self, folder: Path, package: Path, checked: PackageFacts | None) -> PackageFacts:
        with self._writing():
            taken = self._take_in(package)
        try:
            facts = checked if checked and taken == package else self._checked(taken, folder)
            with self._writing():
                _sync(taken)
                self._keep(taken, folder, facts.sha256)
        finally:
            taken.unlink(missing_ok=True)
        self._facts[facts.sha256] = facts
        return facts

    def _checked(self, taken: Path, folder: Path) -> PackageFacts:
        """The facts of a file that comes in: one that is stored already may come again. Raises Invalid."""
        try:
            return self._check(taken)
        except Invalid:
            if not (folder / f"{sha256_of(taken)}{SUFFIX}").exists():
                raise
            return self._read(taken)

    def _take_in(self, package: Path) -> Path:
        """The bytes as a file of ours, which nobody changes while they are checked and stored."""
        if package.parent == self.incoming:
            return package
        taken = self._new_file()
        try:
            shutil.copyfile(package, taken)
        except BaseException:
            taken.unlink(missing_ok=True)
            raise
        return taken

    def _keep(self, taken: Path, folder: Path, sha256: str) -> None:
        """The tenant has the package from the link on; until then it is nobody's. Bytes that were damaged are replaced."""
        pooled, path = self._pool / f"{sha256}{SUFFIX}", folder / f"{sha256}{SUFFIX}"
        before, whole = _inode(pooled), is_whole(pooled, sha256)
        with self._linking:
            present = _inode(pooled)
            whole = whole or present != before  # another one has just brought it
            if present and whole and _inode(path) == present:
                return
            link = self._new_file()
            try:
                if not (present and whole):
                    taken.rename(pooled)
                    make_durable(self._pool)
                folder.mkdir(mode=0o700, exist_ok=True)
                link.hardlink_to(pooled)
                link.rename(path)
                make_durable(folder)
            finally:
                link.unlink(missing_ok=True)  # renamed onto a link of the same bytes, it stays
                _drop_unless_linked(pooled)

    def _inspect(self, path: Path, sha256: str) -> PackageFacts | None:
        if not path.exists():
            return None
        if sha256 not in self._facts:
            self._facts[sha256] = self._read(path)
        return self._facts[sha256]

    def _remove(self, path: Path, sha256: str) -> None:
        with self._writing(), self._linking:
            path.unlink(missing_ok=True)
            _drop_unless_linked(self._pool / path.name)
            self._facts.pop(sha256, None)
            # Others of the tenant's packages keep its folder.
            with suppress(OSError):
                path.parent.rmdir()

    def _remove_all(self, folder: Path) -> None:
        for path in _packages(folder):
            self._remove(path, path.name.removesuffix(SUFFIX))

    def _put_text(self, path: Path, text: bytes) -> None:
        with self._writing():
            new = self._new_file()
            try:
                new.write_bytes(text)
                _sync(new)
                new.rename(path)
                make_durable(path.parent)
            finally:
                new.unlink(missing_ok=True)

    def _new_file(self) -> Path:
        return self.incoming / uuid.uuid4().hex

    def _folder(self, tenant: str) -> Path:
        if tenant and not _NAME.match(tenant):
            raise NotFound(f"{tenant!r} is not a tenant's name")
        return self._root / (tenant or SHARED)

    def _path(self, tenant: str, sha256: str) -> Path:
        if not _SHA256.match(sha256):
            raise NotFound(f"{sha256!r} is not a sha256 in lower-case hex")
        return self._folder(tenant) / f"{sha256}{SUFFIX}"

    def _text(self, name: str) -> Path:
        if not _NAME.match(name):
            raise NotFound(f"{name!r} is not the name of a stored text")
        return self._texts / name

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateUnwritable(self._root, error.strerror or error) from error


def _packages(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name.removesuffix(SUFFIX): path.stat().st_size for path in _packages(folder)}


def _inode(path: Path) -> int:
    """Return the number of a file, 0 if it is not there."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _drop_unless_linked(pooled: Path) -> None:
    """Removes bytes that no tenant has."""
    with suppress(FileNotFoundError):
        if pooled.stat().st_nlink == 1:
            pooled.unlink()
