"""Packages for the time of one plan."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tenantry.adapters.blobs import Check, FolderBlobs
from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import NotFound


class ScratchPackages:
    """ports.Packages in a folder that is made when something is put into it, and vanishes with `close`. Most plans need none."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._made: tuple[tempfile.TemporaryDirectory[str], FolderBlobs] | None = None
        self._making = asyncio.Lock()

    async def incoming(self) -> Path:
        """Return the folder in which packages may be built: `put` moves a file from here."""
        return (await self._blobs()).incoming

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        return await (await self._blobs()).put(tenant, package, checked)

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self._made[1].inspect(tenant, sha256) if self._made else None

    async def fetch(self, tenant: str, sha256: str) -> Path:
        if self._made is None:
            raise NotFound(f"the plan stores no package {sha256}")
        return await self._made[1].fetch(tenant, sha256)

    async def remove(self, tenant: str, sha256: str) -> None:
        if self._made is not None:
            await self._made[1].remove(tenant, sha256)

    async def remove_all(self, tenant: str) -> None:
        if self._made is not None:
            await self._made[1].remove_all(tenant)

    async def close(self) -> None:
        """Remove the folder. In a thread: a disk may take its time, and everybody's requests wait for the event loop."""
        if self._made is not None:
            await asyncio.to_thread(self._made[0].cleanup)

    async def _blobs(self) -> FolderBlobs:
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
            return self._made[1]

    def _make(self) -> tuple[tempfile.TemporaryDirectory[str], FolderBlobs]:
        folder = tempfile.TemporaryDirectory(prefix="tenantry-plan-")
        return folder, FolderBlobs(Path(folder.name), self._check)
