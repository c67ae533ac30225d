"""A connection to a server as the event loop uses it: statements go out together and come back in one round trip.

They are one transaction, unless they begin or end one themselves. The driver's pipeline mode does this; its own cursors take
several times as long as these few calls of libpq.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

PREPARED = 100
"""Statements that the server keeps for a connection."""
MOST_BYTES = 1 << 20
"""Bytes of the texts of an answer that comes in parts."""
_CLOSES = 170000
"""The version of libpq that closes statements by the protocol, which poolers understand as well."""
_FORGOTTEN = b"26000"
"""The SQLSTATE of a prepared statement that the session does not have."""
_TEXTS = frozenset({17, 25, 114, 1043, 3802})
"""The server's numbers of the types bytea, text, json, varchar and jsonb."""


@dataclass(frozen=True)
class Sent:
    """A statement with `$1` for its first parameter, and its values.

    part: rows come in parts of so many, so that an answer that is too large is refused before it is whole; 0: all at once.
    """

    sql: bytes
    values: Sequence[Any] = ()
    part: int = 0


class ConnectionBroken(Exception):  # noqa: N818 - the connection is, not the work
    """The connection has ended, or its answer did not come in time."""


class Unsendable(Exception):  # noqa: N818 - a thread gives the reason
    """A value that the protocol cannot carry. Nothing was sent."""


class TooLarge(Exception):  # noqa: N818 - a thread reads it
    """The answer has more than MOST_BYTES. The connection ends with it."""


Results = list[PGresult]
_Key = tuple[bytes, tuple[int, ...]]


@dataclass(frozen=True)
class _Dumped:
    """A statement as the protocol carries it. key: its text, and the types of its values."""

    key: _Key
    values: Any
    formats: Any


@dataclass
class _Command:
    """A command on its way. results: of a statement, None for what the wire adds by itself; prepared: what it prepares."""

    results: Results | None = None
    part: int = 0
    prepared: _Key | None = None


class PipelineConnection:
    """Used for one round trip at a time, by one event loop.

    prepares: the server keeps statements. weight: bytes of the texts that came in parts with the last answer.
    """

    def __init__(self, connection: psycopg.Connection[Any], *, prepares: bool) -> None:
        self._pgconn = connection.pgconn
        self._prepares = prepares
        self._transformer = Transformer(connection)
        self.encoding = connection.info.encoding
        self._names: OrderedDict[_Key, bytes] = OrderedDict()
        self._made = 0
        self._socket = -1
        self._answer: asyncio.Future[None] | None = None
        self._commands: deque[_Command] = deque()
        self._uncommitted: PGresult | None = None
        self._forgotten = False
        self.weight = 0
        self.broken = False

    def rows(self, results: Results) -> list[tuple[Any, ...]]:
        """The rows of a statement that succeeded, as the driver gives them."""
        found: list[tuple[Any, ...]] = []
        for result in results:
            self._transformer.set_pgresult(result)
            found += self._transformer.load_rows(0, result.ntuples, tuple)
        return found

    def attach(self) -> None:
        """Let the running event loop use it. Raises ConnectionBroken."""
        self._loop = asyncio.get_running_loop()
        try:
            self._pgconn.nonblocking = 1
            self._pgconn.enter_pipeline_mode()
            self._socket = self._pgconn.socket
        except psycopg.Error as error:
            self.broken = True
            raise ConnectionBroken(str(error)) from error
        self._loop.add_reader(self._socket, self._read)

    def detach(self) -> None:
        """Let the event loop forget it. If it is not broken, others may use the connection."""
        if self._socket < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket = -1
        if not self.broken:
            self._pgconn.exit_pipeline_mode()

    async def ask(self, statements: Sequence[Sent], seconds: float) -> list[Results]:
        """Return the results of each statement. The last of a statement is an error if it failed, or one before it did; the last
        of all also if nothing was committed.

        seconds: the longest wait for an answer. Raises Unsendable, ConnectionBroken, TooLarge.
        """
        dumped = [self._dumped(statement) for statement in statements]
        parts = [statement.part for statement in statements]
        found = await self._asked(dumped, parts, seconds)
        if self._forgotten:
            # The driver's cursors deallocate all after a rollback, and nothing of this transaction is left.
            self._names.clear()
            found = await self._asked(dumped, parts, seconds)
        return found

    async def _asked(self, dumped: Sequence[_Dumped], parts: Sequence[int], seconds: float) -> list[Results]:
        answer = self._answer = self._loop.create_future()
        asked = [_Command([], part) for part in parts]
        self.weight, self._uncommitted, self._forgotten = 0, None, False
        timer = self._loop.call_later(seconds, self._fail, ConnectionBroken(f"no answer within {seconds:g} seconds"))
        try:
            for statement, command in zip(dumped, asked, strict=True):
                self._send(statement, command)
            self._pgconn.pipeline_sync()
            if self._pgconn.flush():
                self._loop.add_writer(self._socket, self._write)
            await answer
        except psycopg.Error as error:
            self._end()
            raise ConnectionBroken(str(error)) from error
        except BaseException:
            self._end()  # the rest of the answer would be taken for that of the next
            raise
        finally:
            timer.cancel()
            self._answer = None
        found = [command.results for command in asked if command.results is not None]
        if self._uncommitted is not None:
            found[-1].append(self._uncommitted)
        return found

    def _dumped(self, statement: Sent) -> _Dumped:
        try:
            values = self._transformer.dump_sequence(statement.values, [PyFormat.AUTO] * len(statement.values))
        except (psycopg.Error, UnicodeError) as error:
            raise Unsendable(str(error)) from error
        return _Dumped((statement.sql, self._transformer.types or ()), values, self._transformer.formats)

    def _send(self, dumped: _Dumped, command: _Command) -> None:
        if self._prepares:
            self._pgconn.send_query_prepared(self._named(dumped.key), dumped.values, dumped.formats)
        else:
            self._pgconn.send_query_params(dumped.key[0], dumped.values, dumped.key[1], dumped.formats)
        self._commands.append(command)

    def _named(self, key: _Key) -> bytes:
        """The name of a statement, which is prepared with the others of the same trip if the server does not know it."""
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
            return name
        self._made += 1
        name = self._names[key] = f"quick_{self._made}".encode()
        if len(self._names) > PREPARED:
            _, oldest = self._names.popitem(last=False)
            if psycopg.pq.version() >= _CLOSES:
                self._pgconn.send_close_prepared(oldest)
            else:
                self._pgconn.send_query_params(b"DEALLOCATE " + oldest, None)
            self._commands.append(_Command())
        self._pgconn.send_prepare(name, *key)
        self._commands.append(_Command(prepared=key))
        return name

    def _write(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self._fail(ConnectionBroken(str(error)))

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            while self._commands or self._answer is not None:
                if self._pgconn.is_busy():
                    return
                if self._take():
                    return
        except (psycopg.Error, TooLarge) as error:
            self._fail(error if isinstance(error, TooLarge) else ConnectionBroken(str(error)))
            return
        self._end()  # a server sends data without a request only if the connection ends

    def _take(self) -> bool:
        """Take one result. Return True behind the last one. Raises ConnectionBroken, TooLarge."""
        result = self._pgconn.get_result()
        if result is None:
            self._next()
            return False
        if result.status == ExecStatus.PIPELINE_SYNC:
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(None)
            return True
        if result.status == ExecStatus.FATAL_ERROR and result.error_field(DiagnosticField.SQLSTATE) == _FORGOTTEN:
            self._forgotten = True
        if not self._commands:
            self._uncommitted = result
            return False
        command = self._commands[0]
        if command.results is not None:
            command.results.append(result)
            if command.part:
                self._weigh(result)
        elif result.status != ExecStatus.COMMAND_OK and command.prepared:
            self._names.pop(command.prepared, None)
        if self._pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self._pgconn.get_error_message())
        return False

    def _next(self) -> None:
        """Go on to the results of the next command."""
        if self._pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self._pgconn.get_error_message())
        if self._commands:
            self._commands.popleft()
        if self._commands and self._commands[0].part:
            with suppress(psycopg.Error):  # it was skipped behind an error
                self._pgconn.set_chunked_rows_mode(self._commands[0].part)

    def _weigh(self, result: PGresult) -> None:
        for column in range(result.nfields):
            if result.ftype(column) in _TEXTS:
                self.weight += sum([len(result.get_value(row, column) or b"") for row in range(result.ntuples)])
        if self.weight > MOST_BYTES:
            raise TooLarge

    def _fail(self, error: Exception) -> None:
        self._end()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _end(self) -> None:
        self.broken = True
        self.detach()
