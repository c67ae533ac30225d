"""Engines on their way back: unpacked beside the others, taken in by the first deploy of the environment they are for."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import orjson

from tenantry.adapters.local.archives import CHANGES, POSTGRESQL, SQLITE
from tenantry.adapters.local.reading import Checked, holds_changes, holds_rows, unpack
from tenantry.adapters.local.server_copies import bring_changes, earlier_copy, unpack_as_file
from tenantry.adapters.moving.blocks import LARGEST, Blocks, apply_changes, blocks_of
from tenantry.engine.sealing import Sealing
from tenantry.engine.sql.files import FILE
from tenantry.model.facts import EngineRef
from tenantry.model.verdicts import Halt, Invalid, Problem, Transient, Waiting
from tenantry.rest.disk import make_durable

_FOR = "for.json"
_FILES = "engine"
_PLACES = "places.db"
"""The places of the rows on the server that an engine leaves."""
_ROWS = "rows"
"""While it exists, the rows of the archive are not in their database yet. It holds the mark of their restore."""


class Staging:
    """`<state>/restoring/<environment id>/`: whom it is for, the engine's files, and the mark of rows that a database waits
    for. Its calls block."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "restoring"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._blocks: dict[str, Blocks] = {}
        """Of the databases that were read for a move, by the environment's id."""

    def clear(self) -> None:
        """Removes what an interrupted unpacking left. Only while nobody unpacks."""
        for unfinished in self._folder.glob(".*"):
            shutil.rmtree(unfinished)

    def put(self, archive: Checked, ref: EngineRef, mark: str = "", *, as_file: bool = False) -> None:
        """Unpacks an archive for an environment, by one rename; replaces an earlier one. Raises Invalid, Halt, OSError.

        mark: distinguishes the copies of an engine that moves. Such an archive may hold what differs from the earlier copy, which
        is used up then. as_file: the engine is to have SQLite, whatever it had.
        """
        unfinished = self._folder / f".{secrets.token_hex(8)}"
        unfinished.mkdir(mode=0o700)
        try:
            rows = not as_file and holds_rows(archive)
            if mark and as_file and holds_changes(archive):
                self._bring(archive, ref, unfinished)
            elif as_file:
                unpack_as_file(archive, unfinished / _FILES, unfinished / _PLACES if mark else None)
            else:
                unpack(archive, unfinished / _FILES, database=POSTGRESQL if rows else SQLITE)
            if mark and (unfinished / _FILES / CHANGES).exists():
                self._complete(archive, ref, unfinished / _FILES)
            if (unfinished / _PLACES).exists():
                make_durable(unfinished / _PLACES)
            # Unless the archive brought it; on a server it also says that this folder is that of the database.
            Sealing(unfinished / _FILES).make_key()
            self._write(unfinished / _FOR, orjson.dumps({"namespace": ref.namespace, "name": ref.name, "mark": mark}))
            if rows:
                self._write(unfinished / _ROWS, secrets.token_hex(16).encode())
            make_durable(unfinished)
            self.discard(ref.id)
            unfinished.rename(self._folder / ref.id)
            make_durable(self._folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def holds(self, id_: str) -> bool:
        """Return True if there is data of the environment with that id."""
        return os.path.exists(f"{self._folder}/{id_}")  # noqa: PTH110 - asked for every environment that is made

    def mark(self, ref: EngineRef) -> str:
        """Return the mark of the copy that is there for an environment, `""` for none."""
        try:
            return str(orjson.loads((self._folder / ref.id / _FOR).read_bytes()).get("mark", ""))
        except FileNotFoundError:
            return ""

    def earlier(self, ref: EngineRef) -> bytes:
        """Return what the old place must know of the copy that is there, to send only what changed. `b""` for none.

        These are the digests of its blocks, or the places of its rows on a server. Raises OSError, Halt.
        """
        if self._has_places(ref):
            packed = earlier_copy(self._folder / ref.id / _PLACES)
            return packed if len(packed) <= LARGEST else b""
        blocks = self.blocks(ref)
        return b"" if blocks is None else blocks.packed()

    def blocks(self, ref: EngineRef) -> Blocks | None:
        """Return the digests of the database that is there for an environment, None for none. Raises OSError."""
        database = self._folder / ref.id / _FILES / FILE
        if not self._is_for(ref) or not database.exists():
            return None
        if ref.id not in self._blocks:
            self._blocks[ref.id] = blocks_of(database)
        return self._blocks[ref.id]

    def _complete(self, archive: Checked, ref: EngineRef, files: Path) -> None:
        """Make the database of the changes and of the earlier copy. Raises Invalid (it is another one), OSError."""
        earlier = self.blocks(ref)
        if earlier is None:
            raise Invalid((Problem(str(archive.path), "holds the changes of a copy that is not here"),))
        with self._used_up(ref) as used:
            (used / _FILES / FILE).rename(files / FILE)
            try:
                apply_changes(files / CHANGES, files / FILE, earlier)
            except ValueError as error:
                raise Invalid((Problem(str(archive.path), f"does not fit the earlier copy: {error}"),)) from error
        (files / CHANGES).unlink()
        make_durable(files)

    def _bring(self, archive: Checked, ref: EngineRef, unfinished: Path) -> None:
        """Bring the changed rows of the server into the earlier copy. Raises Invalid, a Transient Halt (MoveStale), OSError."""
        unpack(archive, unfinished / _FILES, database=POSTGRESQL)
        if not self._has_places(ref):
            raise Halt(Transient("MoveStale", "the copy that the changes are of is gone; the move goes on with another one"))
        with self._used_up(ref) as used:
            (used / _FILES / FILE).rename(unfinished / _FILES / FILE)
            (used / _PLACES).rename(unfinished / _PLACES)
            bring_changes(archive, unfinished / _FILES, unfinished / _PLACES)
        make_durable(unfinished / _FILES)

    @contextmanager
    def _used_up(self, ref: EngineRef) -> Iterator[Path]:
        """The earlier copy, for this block. It is not there from here on: half of a change may be in it."""
        used = self._folder / f".{secrets.token_hex(8)}"
        (self._folder / ref.id).rename(used)
        self._blocks.pop(ref.id, None)
        try:
            yield used
        finally:
            shutil.rmtree(used)

    def take(self, ref: EngineRef, target: Path) -> None:
        """Moves the engine's files to `target` where they are for that environment. Idempotent.

        Raises a Waiting Halt (Restoring) until its rows are in the database, OSError.
        """
        held = self._folder / ref.id
        if not self._is_for(ref):
            return
        if (held / _ROWS).exists():
            told = "its rows are not in the database yet: run `tenantry restore` again, with the same file"
            raise Halt(Waiting("Restoring", told))
        if (held / _FILES).exists():
            (held / _FILES).rename(target)
            make_durable(target.parent)
        self.discard(ref.id)

    def take_copy(self, ref: EngineRef, mark: str, target: Path) -> bool:
        """The same with the copy of that mark. Return False if another one is there, or none."""
        if self.mark(ref) != mark:
            return False
        self.take(ref, target)
        return True

    def waiting_rows(self, ref: EngineRef) -> str:
        """Return the mark of the rows that the environment's database waits for, `""` if it waits for none."""
        try:
            return (self._folder / ref.id / _ROWS).read_text() if self._is_for(ref) else ""
        except FileNotFoundError:
            return ""

    def end_rows(self, ref: EngineRef) -> None:
        """Records that the rows are in the database. Idempotent. Raises OSError."""
        (self._folder / ref.id / _ROWS).unlink(missing_ok=True)
        make_durable(self._folder / ref.id)

    def discard(self, id_: str) -> None:
        """Removes what is left for the environment with that id. Idempotent."""
        held = self._folder / id_
        self._blocks.pop(id_, None)
        if held.exists():
            trash = self._folder / f".{secrets.token_hex(8)}"
            held.rename(trash)
            shutil.rmtree(trash)

    def sweep(self, age: timedelta) -> None:
        """Removes what nobody took for that long."""
        for held in self._folder.iterdir():
            if time.time() - held.stat().st_mtime > age.total_seconds():
                shutil.rmtree(held)

    def _has_places(self, ref: EngineRef) -> bool:
        return self._is_for(ref) and (self._folder / ref.id / _PLACES).exists()

    def _is_for(self, ref: EngineRef) -> bool:
        try:
            whose = orjson.loads((self._folder / ref.id / _FOR).read_bytes())
        except FileNotFoundError:
            return False
        return (whose["namespace"], whose["name"]) == (ref.namespace, ref.name)

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        path.write_bytes(content)
        make_durable(path)
