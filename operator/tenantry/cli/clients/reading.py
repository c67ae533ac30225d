"""Declarations read by a client: the files are its own, their packages go through a console."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.packages import PackageFiles, PackageStore
from tenantry.adapters.sources.sops import Sops
from tenantry.cli.arguments.configuration import load
from tenantry.hosts.console.protocol import Console
from tenantry.kinds.admission import Admission
from tenantry.model.facts import Applied, PackageFacts
from tenantry.model.resource import Document
from tenantry.model.tree import Tree
from tenantry.model.verdicts import NotFound
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.runtime.sources.leaving import rank

NAMESPACE_PATIENCE_S = 15.0
"""Seconds that a new tenant's namespace may take."""
PAUSE_S = 0.1


@dataclass(frozen=True)
class ConsolePackages:
    """ports.Packages, as far as a source needs it, through a console."""

    console: Console

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self.console.find_package(tenant, sha256)

    async def put(self, tenant: str, package: Path) -> PackageFacts:
        return await self.console.put_package(tenant, package)


async def checked(path: Path) -> Tree:
    """The declarations in the files. Their packages are built and checked in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tenantry-") as folder:
        return await _read(path, await asyncio.to_thread(FolderBlobs, Path(folder), inspect))


async def read_through(console: Console, path: Path) -> Tree:
    """The declarations in the files, in order of dependency. Their packages are stored through the console.

    Documents of other programs are problems: a person has named the files.
    """
    tree = await _read(path, ConsolePackages(console), strict=True)
    ranked = sorted(tree.documents, key=lambda each: rank(each.ref.kind))
    return Tree(tuple(ranked), tree.problems)


async def applied_within(console: Console, document: Document, running: bool) -> Applied:
    """Applies a document; while a platform runs it waits for the namespace. Raises Halt."""
    deadline = time.monotonic() + (NAMESPACE_PATIENCE_S if running else 0.0)
    while True:
        try:
            return await console.apply(document)
        except NotFound:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(PAUSE_S)


async def _read(path: Path, packages: PackageStore, strict: bool = False) -> Tree:
    admission = await asyncio.to_thread(Admission)
    sops = Sops(load().sops.key_file)
    return await Directory(path, admission.admit, PackageFiles(packages, build), sops, strict=strict).read()
