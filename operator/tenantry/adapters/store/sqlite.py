"""Objects in SQLite: durable when a write returns, many writes to one commit.

One thread writes. It gets all writes that are waiting, carries each out in one transaction, commits once, and then they are
answered; a write that is refused costs its neighbours nothing. Reads see what is committed.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from tenantry.adapters.store.embedded import EVENTS_KEPT, Clock, EmbeddedStore, Ledger, system_clock
from tenantry.adapters.store.event_log import EventLog, LoggedEvent
from tenantry.adapters.store.schema import prepare, read_identity, read_version, write_version
from tenantry.adapters.store.sealing import SealedCodec
from tenantry.adapters.store.semantics import Request, StoreAdmission
from tenantry.adapters.store.state_files import DATABASE_FILE
from tenantry.adapters.store.state_folder import (
    PUT_BACK,
    DatabaseFile,
    FolderLock,
    StateUnreadable,
    StateUnwritable,
    derive,
    holds_state,
    read_key,
    refuse_orphaned_engines,
    sentence,
)
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt

BATCH = 256
"""Writes to one commit at most: bounds how long the first of them waits."""
SHRINK = "PRAGMA shrink_memory"
RESTS_S = 5.0
"""Seconds without a write after which the memory of the connections is given back."""
R = TypeVar("R")


class SqliteRows:
    """Rows of the table `objects`, as they are committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._cursor = connection.cursor()

    def get(self, ref: Ref) -> bytes | None:
        sql = "SELECT body FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        row = self._cursor.execute(sql, ref).fetchone()
        return row[0] if row else None

    def find(self, refs: Sequence[Ref]) -> dict[Ref, bytes]:
        """Those of the rows that are there, of 1 to BATCH refs."""
        # A connection keeps 128 prepared statements, and one for each number of objects would take 4 MiB: there are nine.
        asked = [*refs, *[refs[-1]] * ((1 << (len(refs) - 1).bit_length()) - len(refs))]
        # SQLite looks these up by the primary key; asked with IN it would read the whole table.
        wanted = ", ".join(["(?, ?, ?)"] * len(asked))
        sql = (
            f"WITH wanted (kind, namespace, name) AS (VALUES {wanted})"  # noqa: S608 - question marks
            " SELECT kind, namespace, name, body FROM wanted CROSS JOIN objects USING (kind, namespace, name)"
        )
        rows = self._cursor.execute(sql, [part for ref in asked for part in ref])
        return {Ref(kind, namespace, name): body for kind, namespace, name, body in rows}

    def inside(self, namespace: str) -> list[Ref]:
        sql = "SELECT kind, namespace, name FROM objects WHERE namespace = ? ORDER BY kind, name"
        return [Ref(*row) for row in self._cursor.execute(sql, (namespace,))]

    def of_kind(self, kind: str) -> tuple[list[bytes], int]:
        """All of a kind by namespace and name, and the version at which they are so."""
        sql = "SELECT body FROM objects WHERE kind = ? ORDER BY namespace, name"
        self._cursor.execute("BEGIN")
        try:
            return [row[0] for row in self._cursor.execute(sql, (kind,))], read_version(self._cursor)
        finally:
            self._cursor.execute("COMMIT")


class BatchRows:
    """Rows as a batch is changing them: what it wrote is held until `flush`, which takes few statements for many rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._cursor = connection.cursor()
        self._committed = SqliteRows(connection)
        self._written: dict[Ref, bytes | None] = {}
        self._fetched: dict[Ref, bytes | None] = {}

    def fetch(self, refs: Sequence[Ref]) -> None:
        """Reads what the batch is about in one statement; each of its own takes several times as long."""
        self._fetched = dict.fromkeys(refs) | self._committed.find(refs)

    def get(self, ref: Ref) -> bytes | None:
        for held in (self._written, self._fetched):
            if ref in held:
                return held[ref]
        return self._committed.get(ref)

    def put(self, ref: Ref, body: bytes) -> None:
        self._written[ref] = body

    def remove(self, ref: Ref) -> None:
        self._written[ref] = None

    def inside(self, namespace: str) -> list[Ref]:
        self.flush()
        return self._committed.inside(namespace)

    def flush(self) -> None:
        """Writes what is held, into the open transaction."""
        written, self._written = self._written, {}
        self._fetched.clear()
        self._cursor.executemany(
            "INSERT INTO objects (kind, namespace, name, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (kind, namespace, name) DO UPDATE SET body = excluded.body",
            [(*ref, body) for ref, body in written.items() if body is not None],
        )
        removed = [ref for ref, body in written.items() if body is None]
        self._cursor.executemany("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", removed)

    def forget(self) -> None:
        """Drops what is held."""
        self._written.clear()
        self._fetched.clear()


class Pending(NamedTuple):
    """A write that waits for its commit."""

    request: Request
    caller: Caller | None
    answer: asyncio.Future[Document]


Answer = Document | BaseException


class SqliteStore(EmbeddedStore):
    """Store and Feed in `<folder>/state.db`; belongs to the event loop it was opened in."""

    def __init__(
        self,
        folder: Path,
        lock: FolderLock,
        connection: sqlite3.Connection,
        rows: BatchRows,
        ledger: Ledger,
        codec: SealedCodec,
        events_kept: int,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._codec = codec
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._batch = rows
        self._ledger = ledger
        self._version = ledger.version
        self.identity = read_identity(connection.cursor())
        """The random name of this state, by which its engines know it again."""
        self._log = EventLog(ledger.version, events_kept, codec.decode)
        self._read_connection = _connect(folder)
        self._file = DatabaseFile(folder, folder / DATABASE_FILE)
        self._read_rows = SqliteRows(self._read_connection)
        # A connection is used by one thread at a time; hence one reader.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._waiting: list[Pending] = []
        self._committing = False
        self._batches: queue.SimpleQueue[list[Pending]] = queue.SimpleQueue()
        self._closed = False
        self._writer = threading.Thread(target=self._write_until_closed, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    async def open(
        cls, folder: Path, admission: StoreAdmission, *, clock: Clock = system_clock, events_kept: int = EVENTS_KEPT
    ) -> SqliteStore:
        """Opens the state folder, making or migrating it where needed, and holds it against other processes.

        Raises StateInUse, StateUnwritable, StateUnreadable.
        """
        lock = await asyncio.to_thread(FolderLock, folder)
        try:
            codec = await asyncio.to_thread(_prepare, folder, admission, clock)
            connection = _connect(folder)
            rows = BatchRows(connection)
            ledger = Ledger(rows, codec, admission, clock, read_version(connection.cursor()))
            return cls(folder, lock, connection, rows, ledger, codec, events_kept)
        except BaseException:
            lock.release()
            raise

    async def submit(self, request: Request, caller: Caller | None) -> Document:
        if self._closed:
            raise StateUnwritable(self._folder, "it has been closed")
        answer: asyncio.Future[Document] = self._loop.create_future()
        self._waiting.append(Pending(request, caller, answer))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._hand_over)
        try:
            return await answer
        finally:
            del answer  # which has the exception, which has this frame: only the garbage collector would free them

    @property
    def version(self) -> str:
        return str(self._version)

    async def inside(self, namespace: str) -> list[Ref]:
        return await self._read(self._read_rows.inside, namespace)

    async def close(self) -> None:
        """Finishes the writes already asked for, then lets the folder go. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._waiting:
            self._batches.put(self._waiting)
            self._waiting = []
        self._batches.put([])
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._reader.shutdown)
        self._read_connection.close()
        # Cursors are still known: SQLite would put off the close, and leave all in the log. Who copies the file needs all of it.
        with suppress(sqlite3.Error):  # the log has it, then
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
        self._file.close()
        self._lock.release()

    async def _row(self, ref: Ref) -> bytes | None:
        return await self._read(self._read_rows.get, ref)

    async def _rows_of(self, kind: str) -> tuple[list[bytes], int]:
        return await self._read(self._read_rows.of_kind, kind)

    async def _read(self, query: Callable[..., R], *arguments: object) -> R:
        return await self._loop.run_in_executor(self._reader, self._checked, query, *arguments)

    def _checked(self, query: Callable[..., R], *arguments: object) -> R:
        """The answer of a query. Raises StateUnreadable, also if the file was removed meanwhile."""
        try:
            found = query(*arguments)
        except sqlite3.Error as error:
            self._file.check()  # it knows more
            raise StateUnreadable(self._folder, f"{DATABASE_FILE}: {sentence(error)}; {PUT_BACK}") from error
        self._file.check()
        return found

    def _meaning_of(self, error: sqlite3.Error) -> StateUnreadable | StateUnwritable:
        """Return the failure of a write. A file that was removed or overwritten comes before what SQLite makes of it."""
        try:
            self._file.check()
        except StateUnreadable as harmed:
            return harmed
        return StateUnwritable(self._folder, sentence(error))

    def _hand_over(self) -> None:
        """Gives the writer what is waiting, unless it is running: few large batches cost less than many small ones."""
        if self._waiting and not self._committing:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            self._committing = True
            self._batches.put(batch)

    def _write_until_closed(self) -> None:
        while True:
            try:
                batch = self._batches.get(timeout=RESTS_S)
            except queue.Empty:
                self._rest()
                batch = self._batches.get()
            if not batch:
                return
            self._loop.call_soon_threadsafe(self._settle, batch, *self._commit(batch))
            del batch  # else it stays until the next one comes

    def _rest(self) -> None:
        """Give back the pages that both connections keep in memory: up to 2 MiB each."""
        with suppress(sqlite3.Error):  # the next write says what is wrong
            self._connection.execute(SHRINK)
        self._reader.submit(self._read_connection.execute, SHRINK)

    def _commit(self, batch: list[Pending]) -> tuple[list[Answer], list[LoggedEvent]]:
        """Carries the batch out in one transaction: each write's own answer, or for all that nothing could be written."""
        entries: list[LoggedEvent] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._ledger.begin(self._version)
            self._batch.fetch([pending.request.ref for pending in batch])
            answers = [self._carry_out(pending, entries) for pending in batch]
            if entries:
                self._batch.flush()
                write_version(self._connection, self._ledger.version)
            self._file.check()
            self._connection.execute("COMMIT")
        except (sqlite3.Error, StateUnreadable) as error:
            self._batch.forget()
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failed = error if isinstance(error, StateUnreadable) else self._meaning_of(error)
            return [failed for _ in batch], []
        self._version = self._ledger.version
        return answers, entries

    def _carry_out(self, pending: Pending, entries: list[LoggedEvent]) -> Answer:
        """Rows are written last, so a write that raises has left nothing behind."""
        try:
            document, entry = self._ledger.perform(pending.request, pending.caller)
        except sqlite3.Error:
            raise
        except Halt as refusal:
            # By its traceback a refusal would keep the whole batch, until the garbage collector looks through all objects.
            return refusal.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - it is the caller's answer, and its neighbours go on
            return error
        if entry is not None:
            entries.append(entry)
        return document

    def _settle(self, batch: list[Pending], answers: list[Answer], entries: list[LoggedEvent]) -> None:
        """Answer and publish the committed writes in one step of the loop: a caller's next read of the log shows its own write.

        Answers come first, so a writer with a cache knows its own write before the log reports it.
        """
        for pending, answer in zip(batch, answers, strict=True):
            if pending.answer.done():
                continue
            if isinstance(answer, BaseException):
                pending.answer.set_exception(answer)
            else:
                pending.answer.set_result(answer)
        for entry in entries:
            self._log.publish(entry)
        self._committing = False
        # Called after those just answered: what they ask for next is in the same batch.
        self._loop.call_soon(self._hand_over)


def _connect(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / DATABASE_FILE, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _prepare(folder: Path, admission: StoreAdmission, clock: Clock) -> SealedCodec:
    """Brings the database to this version's schema, checks the key against it, and founds what must be there."""
    is_new = not holds_state(folder, DATABASE_FILE)
    if is_new:
        refuse_orphaned_engines(folder, DATABASE_FILE)
    codec = SealedCodec(derive(read_key(folder, make=is_new), "seal"))
    try:
        connection = _connect(folder)
        try:
            prepare(folder, connection, codec)
            connection.execute("BEGIN IMMEDIATE")
            rows = BatchRows(connection)
            version = read_version(connection.cursor())
            ledger = Ledger(rows, codec, admission, clock, version)
            ledger.begin(version)
            ledger.found()
            rows.flush()
            write_version(connection, ledger.version)
            connection.execute("COMMIT")
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise StateUnreadable(folder, f"{DATABASE_FILE} is damaged or no database ({error}); {PUT_BACK}") from error
        raise StateUnwritable(folder, sentence(error)) from error
    return codec
