"""Writers of one SQLite database commit together: one fsync for all that came while the last one was written.

Nobody waits for a group to fill. Each writer is all-or-nothing within its group, and is answered after the commit.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import Database, Locked, sqlite_driver
from tenantry.engine.sql.deadline import AGAIN_S, Deadline
from tenantry.engine.sql.server_session import Question
from tenantry.rest.fairness.lanes import Lane, Overloaded

T = TypeVar("T")
MOST_WRITERS = 256
"""Writers of one database that may wait for an answer; more are refused."""
MOST_TOGETHER = 64
"""Writers of one commit."""
TOGETHER_S = 0.05
"""Seconds of work after which a group commits: the rest of it comes with the next."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
"""Pauses between two tries while another process, or an install, holds the lock; they double."""

OTHERS = "other requests write"


@dataclass(eq=False)
class _Writer:
    """A request that writes. alone: it has a commit of its own. begun: its work runs or is done, so that the group's end is its
    answer. left: nobody waits for it. locked: the reason for which it waits again."""

    work: Callable[[sa.Connection], Any]
    deadline: Deadline
    answer: asyncio.Future[Any]
    alone: bool
    question: Question | None
    context: Context = field(default_factory=copy_context)
    begun: bool = False
    left: bool = False
    locked: Locked | None = None


class _Outcome(NamedTuple):
    """The end of one writer's work: its result, or the error that it raised."""

    writer: _Writer
    result: Any
    error: BaseException | None


class _RolledBackError(Exception):
    """SQLite gave up the whole transaction, because a statement was interrupted or the disk is full."""


class GroupCommit:
    """The writers of one database that wait. Belongs to one event loop; the work is done in threads of the lane."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self._database = database
        self._lane = lane
        self._waiting: deque[_Writer] = deque()
        self._unanswered = 0
        self._lock = Lock()
        self._led = False
        self._pause_s = FIRST_PAUSE_S

    async def write(
        self, work: Callable[[sa.Connection], T], seconds: float, *, alone: bool = False, question: Question | None = None
    ) -> T:
        """Return the result of `work` once it is durable. It may be done again, in another transaction, before that.

        alone: it has a commit of its own. question: asked before the work, each time.

        Raises Locked after that time, Overloaded, and what `work` raises.
        """
        if self._unanswered >= MOST_WRITERS:
            raise Overloaded(self._unanswered)
        loop = asyncio.get_running_loop()
        writer = _Writer(work, Deadline(time.monotonic() + seconds), loop.create_future(), alone, question)
        self._join(writer, loop)
        self._unanswered += 1
        timer = loop.call_later(seconds, self._expire, writer)
        try:
            result: T = await writer.answer
            return result
        except asyncio.CancelledError:
            self._leave(writer)
            raise
        finally:
            timer.cancel()
            self._unanswered -= 1

    def _join(self, writer: _Writer, loop: asyncio.AbstractEventLoop) -> None:
        """Let it wait for the next group. Raises Overloaded where the lane takes no more work."""
        with self._lock:
            self._waiting.append(writer)
            leads, self._led = not self._led, True
        if not leads:
            return
        try:
            self._submit(loop)
        except Overloaded:
            with self._lock:
                self._waiting.remove(writer)
                self._led = False
            raise

    def _submit(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lane.submit(lambda: self._commit_next(loop), bulk=True)

    def _lead(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the next group in a thread of the lane. Called by the loop, and by a thread that has committed one."""
        try:
            self._submit(loop)
        except Overloaded:
            loop.call_soon_threadsafe(self._lead_later, loop)

    def _lead_later(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(self._pause_s, self._lead, loop)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _expire(self, writer: _Writer) -> None:
        """End the work of a writer whose time is over, or answer one whose work has not begun."""
        with self._lock:
            writer.left = writer.left or not writer.begun
            self._forget(writer)
        if writer.answer.done():
            return
        if writer.left:
            writer.answer.set_exception(writer.locked or Locked(OTHERS))
        else:
            self._interrupt(writer)

    def _leave(self, writer: _Writer) -> None:
        with self._lock:
            writer.left = writer.deadline.given_up = True
            self._forget(writer)
        self._interrupt(writer)

    def _forget(self, writer: _Writer) -> None:
        if writer.left and writer in self._waiting:
            self._waiting.remove(writer)

    def _interrupt(self, writer: _Writer) -> None:
        """Interrupt its statement, again and again: between two statements there is nothing to interrupt."""
        if writer.begun and (writer.left or not writer.answer.done()):
            writer.deadline.interrupt()
            asyncio.get_running_loop().call_later(AGAIN_S, self._interrupt, writer)

    def _commit_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit the writers that wait, and answer them. Those for whom the database was locked wait again."""
        group = self._take()
        outcomes, again, pause = self._commit(group) if group else ([], [], False)
        with self._lock:
            for writer in group:
                writer.begun = False
            self._waiting.extendleft(writer for writer in reversed(again) if not writer.left)
            self._led = bool(self._waiting)
            more = self._led
        loop.call_soon_threadsafe(_answer, iter(outcomes))
        if more and pause:
            loop.call_soon_threadsafe(self._lead_later, loop)
        elif more:
            self._pause_s = FIRST_PAUSE_S
            self._lead(loop)

    def _take(self) -> list[_Writer]:
        group: list[_Writer] = []
        with self._lock:
            while self._waiting and len(group) < MOST_TOGETHER and not (group and self._waiting[0].alone):
                group.append(self._waiting.popleft())
                if group[-1].alone:
                    break
        return group

    def _commit(self, group: Sequence[_Writer]) -> tuple[list[_Outcome], list[_Writer], bool]:
        """Return the answers, the writers to do again, and whether to pause before that."""
        done: list[_Outcome] = []
        try:
            with self._database.writing() as connection:
                self._work(group, connection, done)
        except Locked as locked:
            for writer in group:
                writer.locked = locked
            return [], list(group), True
        except BaseException as error:  # noqa: BLE001 - it is the callers', as an executor hands it over
            return self._blame(group, done, error)
        return done, list(group[len(done) :]), False

    def _work(self, group: Sequence[_Writer], connection: sa.Connection, done: list[_Outcome]) -> None:
        """Carry out the work of each, as far as the time of a group allows.

        Raises _RolledBackError, and the error of one that is alone.
        """
        driver = sqlite_driver(connection)
        end = time.monotonic() + TOGETHER_S
        for writer in group:
            if done and time.monotonic() > end:
                return
            if not self._begin(writer):
                done.append(_Outcome(writer, None, writer.locked or Locked(OTHERS)))
                continue
            if len(group) > 1:
                driver.execute("SAVEPOINT writer")
            outcome = self._one(writer, connection)
            done.append(outcome)
            if outcome.error is not None and len(group) == 1:
                raise outcome.error
            if not driver.in_transaction:
                raise _RolledBackError
            if len(group) > 1:
                if outcome.error is not None:
                    driver.execute("ROLLBACK TO writer")
                driver.execute("RELEASE writer")

    def _begin(self, writer: _Writer) -> bool:
        """Return False for a writer that nobody waits for, or that comes again after its time."""
        with self._lock:
            writer.begun = not writer.left and time.monotonic() < writer.deadline.end
            return writer.begun

    def _one(self, writer: _Writer, connection: sa.Connection) -> _Outcome:
        def work() -> Any:
            with writer.deadline.over(connection, writer.question):
                return writer.work(connection)

        try:
            return _Outcome(writer, writer.context.run(work), None)
        except DBAPIError as error:
            meaning = self._database.meaning_of(error)
            meaning.__cause__ = error
            return _Outcome(writer, None, meaning)
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            return _Outcome(writer, None, error)

    def _blame(
        self, group: Sequence[_Writer], done: list[_Outcome], error: BaseException
    ) -> tuple[list[_Outcome], list[_Writer], bool]:
        """Find whose error a failed transaction is: who raised it has it, and the others do their work again, each alone."""
        if len(group) == 1:
            return [_Outcome(group[0], None, error)], [], False
        raised = [outcome for outcome in done if outcome.error is not None]
        answered = {id(outcome.writer) for outcome in raised}
        again = [writer for writer in group if id(writer) not in answered]
        for writer in again:
            writer.alone = True
        return raised, again, False


def _answer(outcomes: Iterator[_Outcome]) -> None:
    """Answer one writer in each round of the loop: what each does then must not come before other tenants' requests."""
    for writer, result, error in outcomes:
        if writer.answer.done():
            continue
        if error is None:
            writer.answer.set_result(result)
        elif isinstance(error, asyncio.CancelledError):
            writer.answer.cancel()
        else:
            writer.answer.set_exception(error)
        asyncio.get_running_loop().call_soon(_answer, outcomes)
        return
