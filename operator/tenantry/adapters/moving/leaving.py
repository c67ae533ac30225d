"""An engine that leaves its place: it is made read-only, copied as an archive, or made writable again."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

import orjson

from tenantry.adapters.local.signing import ArchiveKey
from tenantry.adapters.moving.blocks import Blocks, parse_blocks
from tenantry.adapters.moving.room import CopyRoom, Count, uncounted
from tenantry.engine.logical.moments import FileMoment
from tenantry.engine.sealing import TOKEN_KEY_FILE, Sealing
from tenantry.engine.sql.files import FILE
from tenantry.engine.sql.limits import bound
from tenantry.engine.sql.moving import MOVING, token_of
from tenantry.model.resource import format_time
from tenantry.model.verdicts import Halt, Transient, Waiting
from tenantry.rest.auth.tokens import new_key
from tenantry.rest.disk import make_durable, write_once

if TYPE_CHECKING:
    from tenantry.adapters.local.archives import Members

DRAIN_S = 3.0
"""The longest time to wait for the end of a write, such as a migration. Other writes are refused for as long."""
BLOCK = 1 << 20
GIVEN = "given"
"""The end of the mark of an engine that may run elsewhere already."""
_TURN = threading.Lock()
"""Of those who look at the mark and change it. One process serves a folder."""


class Packed(NamedTuple):
    """An archive on its way. token: of the engine while it was read, as `wire.TOKEN` says it; signer: who signs it."""

    token: str
    signer: str
    blocks: AsyncIterator[bytes]


@asynccontextmanager
async def held_archive(copy: Packed, scratch: Path, room: CopyRoom | None = None) -> AsyncIterator[Path]:
    """The archive that comes, as a file in that folder for this block. Raises OSError, Halt, and what ends its blocks.

    room: where others have engines, which need the disk.
    """
    taken = room.taken() if room is not None else nullcontext(uncounted)
    async with taken as count:
        with tempfile.NamedTemporaryFile(dir=scratch, prefix="moving-", suffix=".tar") as held:
            await _write(copy.blocks, cast(BinaryIO, held), count)
            yield Path(held.name)


async def _write(blocks: AsyncIterator[bytes], file: BinaryIO, count: Count) -> None:
    held: list[bytes] = []
    async for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= BLOCK:
            await _put(held, file, count)
            held = []
    await _put(held, file, count)
    await asyncio.to_thread(file.flush)


async def _put(held: list[bytes], file: BinaryIO, count: Count) -> None:
    count(sum(map(len, held)))
    await asyncio.to_thread(file.writelines, held)


class LeavingCopy(NamedTuple):
    """A copy of a database. kind: of the database; members: write a logical copy, None for a file of the engine's folder.

    earlier: of that file, as the new place has it: as a file, or as rows.
    """

    kind: str
    members: Members | None = None
    earlier: Blocks | FileMoment | None = None


class LeavingDatabase(Protocol):
    """The database of an engine that leaves. Its calls block, and raise OSError, Halt."""

    def copy(self, earlier: bytes) -> LeavingCopy:
        """Return how it is copied. earlier: what the new place says of its copy, `b""` if it has none. Raises ValueError."""

    def token(self) -> str:
        """The token of an engine that is read-only, `""` of one that is not."""

    def freeze(self) -> str:
        """As LeavingEngine."""

    def give(self, token: str) -> None:
        """As LeavingEngine."""

    def thaw(self, *, cancelled: bool) -> None:
        """As LeavingEngine."""


class LeavingFile:
    """LeavingDatabase in the engine's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def copy(self, earlier: bytes) -> LeavingCopy:
        rows = FileMoment.parse(earlier)
        return LeavingCopy("sqlite", earlier=rows or (parse_blocks(earlier) if earlier else None))

    def token(self) -> str:
        return token_of(self._folder)

    def freeze(self) -> str:
        return freeze(self._folder)

    def give(self, token: str) -> None:
        give(self._folder, token)

    def thaw(self, *, cancelled: bool) -> None:
        thaw(self._folder, cancelled=cancelled)


class LeavingEngine:
    """The engine in a folder. scratch: a folder with room for its database once more; key: signs its archives.

    database: None for the file in the folder.
    """

    def __init__(self, folder: Path, scratch: Path, key: ArchiveKey, database: LeavingDatabase | None = None) -> None:
        self._folder = folder
        self._scratch = scratch
        self._key = key
        self._database = database or LeavingFile(folder)

    async def freeze(self) -> str:
        """Make the engine read-only, and return its token. Idempotent. Raises OSError, Halt (MoveWaits)."""
        await asyncio.to_thread(_make_keys, self._folder)
        return await asyncio.to_thread(self._database.freeze)

    async def give(self, token: str) -> None:
        """Let the engine go: from now on it may run elsewhere. Idempotent. Raises OSError, Halt (MoveStale)."""
        await asyncio.to_thread(self._database.give, token)

    async def thaw(self, *, cancelled: bool) -> None:
        """Let the engine be written again. Idempotent. cancelled: it runs nowhere else, and will not.

        Raises OSError, a Waiting Halt (Moving) if it was let go and is not cancelled.
        """
        await asyncio.to_thread(lambda: self._database.thaw(cancelled=cancelled))

    async def pack(self, earlier: bytes = b"") -> Packed:
        """Return an archive of the engine with its keys, while it serves. A reader that gets less than all of it gets no archive.

        earlier: what the reader says of the copy that it has, `b""` for none. Raises OSError, Halt, ValueError.
        """
        copy = self._database.copy(earlier)
        token = await asyncio.to_thread(self._database.token)
        signer, _ = await asyncio.to_thread(self._key.sign, b"")
        return Packed(token, signer, self._stream(copy))

    async def _stream(self, copy: LeavingCopy) -> AsyncIterator[bytes]:
        ends = os.pipe()
        reading, writing = os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "wb")
        packing = asyncio.ensure_future(asyncio.to_thread(self._pack, writing, copy))
        try:
            while block := await asyncio.to_thread(reading.read, BLOCK):
                yield block
            await packing
        finally:
            reading.close()
            with suppress(OSError, Halt):
                await packing  # a reader that left ends it by a broken pipe

    def _pack(self, out: BinaryIO, copy: LeavingCopy) -> None:
        # With the fields of declarations: an engine starts without them.
        from tenantry.adapters.local.archives import ABOUT, FORMAT, SENDS_ROWS, Packing, stream

        about = {"format": FORMAT, "takenAt": format_time(datetime.now(UTC)), "database": copy.kind, SENDS_ROWS: True}
        packing = Packing(self._key, keys=True, earlier=copy.earlier)
        with out:
            stream({ABOUT: orjson.dumps(about)}, self._folder, out, self._scratch, packing, copy.members)


def freeze(folder: Path) -> str:
    """Make the engine of that folder read-only, and return its token. Blocks. Raises OSError, Halt (MoveWaits)."""
    with _TURN:
        write_once(folder / MOVING, secrets.token_hex(16).encode())
    try:
        _drain(folder / FILE)
    except Halt:
        with suppress(Halt):
            thaw(folder, cancelled=False)
        raise
    return token_of(folder)


def give(folder: Path, token: str) -> None:
    """Let the engine of that folder go, if it is read-only by that token. Blocks. Raises OSError, Halt (MoveStale)."""
    with _TURN:
        if not token or token_of(folder) != token:
            raise Halt(Transient("MoveStale", "the engine was written since it was copied; the move goes on with another copy"))
        given = folder / f"given-{MOVING}"
        given.write_text(f"{token} {GIVEN}")
        make_durable(given)
        given.rename(folder / MOVING)
        make_durable(folder)


def thaw(folder: Path, *, cancelled: bool) -> None:
    """Let the engine of that folder be written again. Blocks. Raises OSError, Halt (Moving)."""
    with _TURN:
        if not (folder / MOVING).exists():
            return
        if not cancelled and (folder / MOVING).read_text().endswith(GIVEN):
            raise Halt(Waiting("Moving", "the engine may run in its new place already, and stays read-only here", expected=True))
        (folder / MOVING).unlink()
        make_durable(folder)


def _make_keys(folder: Path) -> None:
    """Make the keys of the engine now: the copy would lack one that a sign-in makes later."""
    Sealing(folder).make_key()
    write_once(folder / TOKEN_KEY_FILE, orjson.dumps(new_key().as_dict(private=True)))


def _drain(database: Path) -> None:
    """Wait for the end of a write that began before."""
    if not database.exists():
        return
    try:
        with closing(bound(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", DRAIN_S, uri=True))) as connection:
            connection.isolation_level = None
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        told = f"a write, such as a migration, does not end within {DRAIN_S:.0f} s: {error}; the move tries again"
        raise Halt(Transient("MoveWaits", told)) from error
