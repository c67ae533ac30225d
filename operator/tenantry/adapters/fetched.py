"""Packages that were fetched from elsewhere, kept for the next one who installs them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from tenantry.adapters.blobs import SUFFIX

KEPT = 16


class FetchedPackages:
    """The last KEPT of them, in a folder of ours; it exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def find(self, sha256: str) -> Path | None:
        """The file, or None when it must be fetched."""
        path = self._path(sha256)
        return path if await asyncio.to_thread(path.exists) else None

    async def take(self, sha256: str, chunks: AsyncIterator[bytes]) -> Path:
        """Keeps what comes, by one rename: a broken transfer leaves nothing. Raises what `chunks` raises, OSError."""
        part = self._folder / f"{sha256}.{os.urandom(4).hex()}"
        try:
            with part.open("wb") as file:
                async for chunk in chunks:
                    await asyncio.to_thread(file.write, chunk)
            return await asyncio.to_thread(self._keep, part, self._path(sha256))
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)

    def _path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}{SUFFIX}"

    def _keep(self, part: Path, target: Path) -> Path:
        oldest_first = sorted(self._folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in oldest_first[: max(0, len(oldest_first) - KEPT + 1)]:
            path.unlink(missing_ok=True)
        return part.rename(target)
