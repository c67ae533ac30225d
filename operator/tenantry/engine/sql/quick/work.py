"""Quick work on a server: the caller's rights, one statement and the end of its transaction in one round trip, without a thread.

The rights are those of the last look. The server compares them with the real ones before the statement, in its transaction: if
they have moved, nothing is read or written. Statements that turn out to be slow are ended, and are done again in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import Database
from tenantry.engine.sql.driver import raised
from tenantry.engine.sql.quick.pauses import Pauses
from tenantry.engine.sql.quick.places import Places, UsedConnection
from tenantry.engine.sql.quick.replay import NeedsAnswer, OneStatement, Replay, StatementAnswer
from tenantry.engine.sql.server_session import PIN_LOCALLY, Question
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.verdicts import Halt, Transient
from tenantry.rest.fairness.lanes import Lane

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

    from tenantry.engine.sql.quick.pipeline import PipelineConnection, Results

T = TypeVar("T")
READ_MS, WRITE_MS, LOCK_MS = 100, 1000, 50
"""Milliseconds of a statement, and of its wait for a lock, after which a thread does the work. A write waits for the disk."""
ANSWER_S = 10.0
"""Seconds after which a connection is given up whose server does not answer at all, or whose disk does not."""
PART = 8
"""Rows of a part of an answer whose rows may be long."""
LARGE = 64 << 10
"""Bytes of texts that are not turned into JSON in the event loop."""
_PIN = PIN_LOCALLY.encode()
_MOVED = "22012"  # the guard divides by zero
_UNKNOWN = ("08", "57P")
_LATE = "57014"
_STALE = ("0A000", "26000")
"""SQLSTATEs of a statement that was prepared for other tables, or for another session: the connection is not used again."""
_THREADS = (_LATE, "55P03", "40P01", "40001", *_STALE, "42P01", "42703", "25006", *_UNKNOWN, "53", "58", "XX")
"""SQLSTATEs, and beginnings of them, with which a thread does the work: it was slow, waited for a lock, its plan or its table
is another by now, or the server is in trouble. Nothing of the transaction is left."""


class RightsMoved(Exception):  # noqa: N818 - the work is done again
    """The answer to the question is another by now."""


class Unverified(Exception):  # noqa: N818 - the halt is told apart
    """The work was refused before its statement: nobody has looked whether the rights are still the same."""

    def __init__(self, halt: Halt) -> None:
        super().__init__(str(halt))
        self.halt = halt


@dataclass(frozen=True)
class _Trip:
    """The results of the question's statement, and of the work's."""

    first: Results
    work: Results


class QuickWork:
    """One engine's. Belongs to one event loop."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self._database = database
        self._lane = lane
        self._places = Places(database, lane)
        self._pauses = Pauses()

    async def ask(self, question: Question) -> tuple[Any, ...]:
        """Return the answer, as texts. Raises NotShort, Overloaded."""
        query = _numbered(question.query)
        place = await self._places.take()
        try:
            query = f"SELECT found.*, {_limits(READ_MS)} FROM ({query}) AS found"  # noqa: S608 - a constant, and values are parameters
            trip = await self._trip(place, (query.encode(), question.values), None)
            if (error := _error_of(trip.first[-1], place.wire)) is not None:
                raise NotShort from error
            result = trip.first[-1]
            cells = [result.get_value(0, place) for place in range(result.nfields - 2)]
            return tuple([None if cell is None else cell.decode() for cell in cells])
        finally:
            self._places.give(place)

    async def run(self, work: Callable[[Replay], T], question: Question, *, write: bool) -> T:
        """Return the result of work that has one statement, for which the question is answered as at the last look.

        The statement is committed when it has succeeded. Raises RightsMoved, Unverified, NotShort, Overloaded, Halt.
        """
        _, dialect = self._database.server_pool()
        try:
            return work(Replay(dialect, ()))
        except NeedsAnswer as asked:
            prepared = OneStatement(asked.spelled, asked.parameters, lambda answer: _whole(work, Replay(dialect, [answer])))
        except Halt as halt:
            raise Unverified(halt) from halt
        return await self._done(prepared, question, write)

    async def run_prepared(self, prepare: Callable[[Dialect], OneStatement[T]], question: Question, *, write: bool) -> T:
        """Return the result of work whose beginning is done once. Raises what `run` raises, and what the end of the work raises.

        After RightsMoved and Unverified nothing is written, nor after NotShort unless the end of the work raises it.
        """
        _, dialect = self._database.server_pool()
        try:
            prepared = prepare(dialect)
        except Halt as halt:
            raise Unverified(halt) from halt
        return await self._done(prepared, question, write)

    async def _done(self, prepared: OneStatement[T], question: Question, write: bool) -> T:
        if self._pauses.holds(prepared.spelled.sql):
            raise NotShort
        answer, large = await self._answered(prepared, question, write)
        self._pauses.end(prepared.spelled.sql)
        try:
            return await self._lane.run(lambda: prepared.done(answer), bulk=True) if large else prepared.done(answer)
        except DBAPIError as error:
            raise self._database.meaning_of(error) from error

    async def _answered(self, asked: OneStatement[Any], question: Question, write: bool) -> tuple[StatementAnswer, bool]:
        """The answer to the statement, and whether it is large."""
        place = await self._places.take()
        try:
            trip = await self._trip(place, _guard(question, write), asked, write)
            wire = place.wire
            if (error := _error_of(trip.first[-1], wire)) is not None:
                if write and not error.sqlstate:
                    raise _unknown(error) from error
                raise (RightsMoved if error.sqlstate == _MOVED else NotShort) from error
            if not trip.work:
                raise NotShort
            if (error := _error_of(trip.work[-1], wire)) is not None:
                return self._failed(asked, error, write), False
            return _answer(trip.work, wire), wire.weight > LARGE
        finally:
            self._places.give(place)

    async def _trip(
        self, place: UsedConnection, first: tuple[bytes, Sequence[Any]], asked: OneStatement[Any] | None, write: bool = False
    ) -> _Trip:
        from tenantry.engine.sql.quick.pipeline import ConnectionBroken, Sent, TooLarge, Unsendable

        sent = [Sent(_PIN)] if place.pooled else []
        sent.append(Sent(*first))
        if asked is not None:
            sent.append(Sent(asked.spelled.numbered[0], asked.parameters, PART if asked.spelled.unbounded else 0))
        try:
            results = await place.wire.ask(sent, ANSWER_S)
        except ConnectionBroken as error:
            raise (_unknown(error) if write else NotShort()) from error
        except Unsendable as error:
            raise NotShort from error
        except TooLarge as error:
            assert asked is not None
            self._pauses.begin(asked.spelled.sql)
            raise NotShort from error
        first_at = 1 if place.pooled else 0
        return _Trip(results[first_at], results[first_at + 1] if asked is not None else [])

    def _failed(self, asked: OneStatement[Any], error: psycopg.Error, write: bool) -> StatementAnswer:
        """The answer for a statement that failed by itself. Raises NotShort, Halt."""
        state = error.sqlstate or ""
        if write and (not state or state.startswith(_UNKNOWN)):
            raise _unknown(error) from error
        if state == _LATE:
            self._pauses.begin(asked.spelled.sql)
        if not state or state.startswith(_THREADS):
            raise NotShort from error
        _, dialect = self._database.server_pool()
        return StatementAnswer(error=raised(asked.spelled.sql, error, dialect))


def _whole(work: Callable[[Replay], T], replay: Replay) -> T:
    try:
        return work(replay)
    except NeedsAnswer as second:
        raise RuntimeError("quick work has one statement") from second


def _guard(question: Question, write: bool) -> tuple[bytes, Sequence[Any]]:
    """A statement that fails with _MOVED unless the question still has the same answer. It limits those behind it."""
    assert question.answer is not None
    limits = _limits(WRITE_MS if write else READ_MS)
    spelled = _guarding(question.query, len(question.values), len(question.answer), limits)
    return spelled, (*question.values, *question.answer)


@lru_cache
def _guarding(query: str, values: int, answers: int, limits: str) -> bytes:
    names = [f"c{number}" for number in range(answers)]
    same = " AND ".join(f"{name}::text IS NOT DISTINCT FROM ${values + n}::text" for n, name in enumerate(names, 1))
    found = f"SELECT count(*) FROM ({_numbered(query)}) AS found({', '.join(names)}) WHERE {same}"  # noqa: S608 - parameters
    return f"SELECT 1 / ({found}), {limits}".encode()


def _limits(milliseconds: int) -> str:
    return f"set_config('statement_timeout', '{milliseconds}', true), set_config('lock_timeout', '{LOCK_MS}', true)"


def _numbered(query: str) -> str:
    first, *rest = query.split("%s")
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))


def _error_of(result: PGresult, wire: PipelineConnection) -> psycopg.Error | None:
    """The error of a result, None for one that succeeded. After a stale statement the connection counts as broken."""
    import psycopg
    from psycopg.pq import ExecStatus

    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return None
    error = psycopg.errors.error_from_result(result, wire.encoding)
    wire.broken = error.sqlstate in _STALE
    return error


def _answer(results: Results, wire: PipelineConnection) -> StatementAnswer:
    last = results[-1]
    return StatementAnswer(wire.rows(results), tuple([last.ftype(column) for column in range(last.nfields)]))


def _unknown(error: Exception) -> Halt:
    told = f"the database did not say whether it took the change: {error}; look before you try again"
    return Halt(Transient("DatabaseUnavailable", told))
