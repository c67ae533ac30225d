"""Survey of the engines' files: what vanishes or comes back under a running platform shows on its Environment in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tenantry.adapters.local.data_loss.losses import FileState, Loss, state_of
from tenantry.adapters.local.folders import EngineFolders
from tenantry.adapters.local.hosting import LocalHosting
from tenantry.engine.sql.files import FILE
from tenantry.model.facts import EngineRef

PAUSE_S = 2.0
"""The least seconds between two surveys."""
PAUSE_OF_ENGINE_S = 0.001
"""Seconds for each engine, where that is longer: looking at one takes about 5 us of processor time."""


class DataSurvey:
    """Looks at the file of every engine, again and again. It looks into a file only when that changed and nothing has it open."""

    def __init__(self, folders: EngineFolders, hosting: LocalHosting) -> None:
        self._folders = folders
        self._hosting = hosting
        self._seen: dict[str, FileState | None] = {}
        self._losses: dict[str, Loss] = {}
        self._noted: dict[str, Loss] = {}
        self.lost: tuple[tuple[EngineRef, Loss], ...] = ()
        """The engines whose data is missing or damaged, as of the last whole survey."""

    def note(self, id_: str, loss: Loss) -> None:
        """Take note of a loss that a pass saw: its end is a change, also where it came and went between two surveys."""
        self._noted[id_] = loss

    async def changes(self) -> AsyncIterator[EngineRef]:
        """Yield each engine whose data vanished, or came back. Without end."""
        while True:
            await self._hosting.close_damaged()
            noted, self._noted = self._noted, {}
            self._losses |= noted
            for ref in await asyncio.to_thread(self.changed):
                yield ref
            await asyncio.sleep(max(PAUSE_S, len(self._seen) * PAUSE_OF_ENGINE_S))

    def changed(self) -> list[EngineRef]:
        """Return the engines whose data vanished, or came back, since the last call. Blocks."""
        seen, losses = self._seen, self._losses
        self._seen, self._losses = {}, {}
        refs = self._folders.made()
        for id_ in (ref.id for ref in refs):
            now = state_of(f"{self._folders.engines}/{id_}/{FILE}")
            if now is not None and seen.get(id_) == now and id_ not in losses and not self._folders.is_damaged(id_):
                self._seen[id_] = now
            else:
                self._inspect(id_, now)
        self.lost = tuple((ref, self._losses[ref.id]) for ref in refs if ref.id in self._losses)
        return [ref for ref in refs if self._losses.get(ref.id) != losses.get(ref.id)]

    def _inspect(self, id_: str, now: FileState | None) -> None:
        if not self._hosting.is_open(id_):  # else it is looked into once it is closed
            self._folders.inspect(id_)
            self._seen[id_] = now
        loss = self._folders.loss(id_)
        if loss is not None:
            self._losses[id_] = loss
