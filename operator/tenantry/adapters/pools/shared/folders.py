"""The engines of one replica of a pool on a server: copies of records that all replicas share, each with a folder of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import orjson
import structlog

from tenantry.adapters.local.data_loss.losses import Loss
from tenantry.adapters.local.folders import EngineFolders, EngineRecord, decode, encode
from tenantry.adapters.pools.shared.catalog import Catalog, CatalogRecord, RecordChange
from tenantry.engine.sealing import KEY_BYTES, KEY_FILE, TOKEN_KEY_FILE
from tenantry.engine.sql.files import ID_FILE
from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt
from tenantry.rest.auth.tokens import new_key
from tenantry.rest.disk import write_anew

PAUSE_S = 1.0
"""Seconds between two looks for the changes of other replicas."""
log = structlog.get_logger(__name__)


class SharedFolders(EngineFolders):
    """As EngineFolders. A change is in the catalog before it is here."""

    def __init__(self, state: Path, catalog: Catalog) -> None:
        super().__init__(state)
        self._catalog = catalog
        self._sharing = threading.Lock()
        """Held while a change comes to both places: an older one of ours would hide a newer one of another replica."""
        self.brought: set[str] = set()
        """The engines whose backup is there, and that have not taken it yet."""
        self._whole: set[str] = set()
        """The engines whose folders have the keys."""

    def save(self, records: Sequence[EngineRecord]) -> None:
        """As EngineFolders. Raises Halt, too."""
        with self._sharing:
            self._catalog.put(
                [CatalogRecord(each.ref.id, encode(each), each.awaits, known=bool(each.database_mark)) for each in records]
            )
            super().save(records)
            self.brought.difference_update(record.ref.id for record in records if not record.awaits)

    def remove(self, ref: EngineRef) -> Path | None:
        """As EngineFolders. Raises Halt, too."""
        self.find(ref)
        with self._sharing:
            self._catalog.remove(ref.id)
            return self._removed(ref)

    def let_go(self, ref: EngineRef) -> Path | None:
        """Take away what this replica has of an engine. Returns the trash folder to `discard`, or None."""
        with self._sharing:
            return self._removed(ref)

    def take_over(self, record: EngineRecord, brought: bool) -> None:
        """Take a record as another replica wrote it. brought: its backup is there."""
        with self._sharing:
            super().save([record])
            (self.brought.add if brought and record.awaits else self.brought.discard)(record.ref.id)

    def _removed(self, ref: EngineRef) -> Path | None:
        self._whole.discard(ref.id)
        self.brought.discard(ref.id)
        return super().remove(ref)

    def was_brought(self, id_: str) -> bool:
        """As EngineFolders. A folder that is here may be of any time."""
        return id_ in self.brought

    def loss(self, id_: str) -> Loss | None:
        """None: what a folder lacks is brought there again, and rows are on the server."""
        return None

    def make(self, id_: str) -> Path:
        """As EngineFolders, with the keys that all replicas have. Raises Halt, too."""
        folder = super().make(id_)
        if id_ not in self._whole:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._bring_keys(id_, folder)
            self._whole.add(id_)
        return folder

    def _bring_keys(self, id_: str, folder: Path) -> None:
        files = dict(self._catalog.known_keys(id_))
        if not files.keys() >= {KEY_FILE, TOKEN_KEY_FILE}:
            new = {KEY_FILE: os.urandom(KEY_BYTES), TOKEN_KEY_FILE: orjson.dumps(new_key().as_dict(private=True))}
            files = dict(self._catalog.keys(id_, new))
        record = self.held(id_)
        if record is not None and record.database_mark:
            # It was on its database before: one that is empty has lost its rows since.
            files[ID_FILE] = orjson.dumps({"id": id_, "claimed": True})
        for name, content in files.items():
            write_anew(folder / name, content, durable=False)


class CatalogFollower:
    """Brings what other replicas wrote to this one. closed: closes an engine here, and keeps it closed for a block."""

    def __init__(
        self, folders: SharedFolders, catalog: Catalog, closed: Callable[[str], AbstractAsyncContextManager[None]]
    ) -> None:
        self._folders = folders
        self._catalog = catalog
        self._closed = closed
        self._after = 0
        self._life = ""
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Look again and again, without end: an open engine learns of another password, and a host of what it leads to."""
        while True:
            await asyncio.sleep(PAUSE_S)
            try:
                await self.refresh()
            except (Halt, OSError) as error:
                log.warning("the records of the pool cannot be read", error=str(error))
            except Exception:
                log.exception("a record of the pool cannot be taken over")

    async def shut(self, time: timedelta) -> int:
        """Let no replica take a new engine for that time, if there is none. Return the number of engines. Raises Halt."""
        return await asyncio.to_thread(self._catalog.shut, time.total_seconds())

    async def refresh(self) -> None:
        """Return when this replica knows all that was written before. Raises Halt, OSError."""
        async with self._turn:
            held = self._folders.ids  # before the look: one that comes here while it lasts is in the catalog, too
            found = await asyncio.to_thread(self._catalog.changes, self._after, self._life)
            if found.whole:  # what the folder has of before may be gone
                self._after = 0
                for id_ in held - {change.id for change in found.records if change.body is not None}:
                    await self._let_go(id_)
            for change in found.records:
                await self._take(change)
                self._after = change.changed
            self._life = found.life

    async def _take(self, change: RecordChange) -> None:
        held = self._folders.held(change.id)
        if change.body is None:
            await self._let_go(change.id)
            return
        record = decode(change.body)
        if held == record and change.brought == (change.id in self._folders.brought):
            return
        if held is not None and held.created_at != record.created_at:
            await self._let_go(change.id)  # it was removed, and another has its id: no file of it is of any use
            held = None
        if held is not None and _reopens(held, record):
            async with self._closed(change.id):
                await asyncio.to_thread(self._folders.take_over, record, change.brought)
        else:
            await asyncio.to_thread(self._folders.take_over, record, change.brought)

    async def _let_go(self, id_: str) -> None:
        held = self._folders.held(id_)
        if held is None:
            return
        async with self._closed(id_):
            trash = await asyncio.to_thread(self._folders.let_go, held.ref)
        if trash is not None:
            await asyncio.to_thread(self._folders.discard, trash)


def _reopens(held: EngineRecord, record: EngineRecord) -> bool:
    """Return True if an open engine would go on with what it was opened with."""
    before = held.sent.url, held.database_mark, held.withdrawn, held.awaits, held.route
    return before != (record.sent.url, record.database_mark, record.withdrawn, record.awaits, record.route)
