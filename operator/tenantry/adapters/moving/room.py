"""The room that copies of engines may take where they come to, beside the engines that are there already."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tenantry.model.quotas import told
from tenantry.model.verdicts import Halt, Waiting
from tenantry.rest.disk import folder_size

SPARE = 20
"""This part of the whole stays free: the engines that are there go on writing."""
AGAIN = timedelta(minutes=1)
Count = Callable[[int], None]
"""Counts bytes that are about to be written. Raises a Waiting Halt (NoRoomForCopy)."""


def uncounted(more: int) -> None:
    """Take all that comes."""


class CopyRoom:
    """Counts the archives that come at the same time. For one event loop.

    folder: where they are held. limit: bytes of that folder, which the cluster ends the pod for; 0 where the disk is the limit.
    """

    def __init__(self, folder: Path, limit: int = 0) -> None:
        self._folder = folder
        self._limit = limit
        self._coming = 0
        self._before = 0
        """Bytes of the folder beside the archives that come, as the last one of these began."""

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Count]:
        """The room of an archive for this block, in which it is also unpacked."""
        if self._limit:
            # Copies may overlap for as long as there are many. Engines are opened in that time, and other copies have come.
            coming = self._coming
            size = await asyncio.to_thread(folder_size, self._folder)
            self._before = max(0, size - min(coming, self._coming))  # bytes that came or went in between count as held
        own = 0

        def count(more: int) -> None:
            nonlocal own
            self._check(own, more)
            own += more
            self._coming += more

        try:
            yield count
        finally:
            self._coming -= own

    def _check(self, own: int, more: int) -> None:
        """Once they are unpacked, all that have come take as much again."""
        coming = self._coming + more
        if self._limit:
            whole, free = self._limit, self._limit - self._before - coming
        else:
            usage = shutil.disk_usage(self._folder)
            whole, free = usage.total, usage.free - more
        if free - coming < whole // SPARE:
            reason = f"there is no room for a copy of {told(own + more)} or more, which takes twice that for a while"
            advice = "raise storage.size of the pool, or wait until other engines have come"
            raise Halt(Waiting("NoRoomForCopy", f"{reason}: {advice}", datetime.now(UTC) + AGAIN))
