"""Work on a server's database without a thread: it is done again from its beginning with each answer, until it has all.

Most work has one statement. What comes before it is done twice, which takes less time than a change of thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")
Parameters = Sequence[Any]


class NumberedStatement(Protocol):
    """A compiled statement for PostgreSQL's protocol."""

    @property
    def sql(self) -> str:
        """The statement as the driver takes it, for errors."""

    @property
    def numbered(self) -> tuple[bytes, tuple[str, ...]]:
        """The statement with `$1` for its first parameter, and the order of its parameters."""

    @property
    def unbounded(self) -> bool:
        """Return True if a row of the result may be long."""


class NeedsAnswer(Exception):  # noqa: N818 - no failure: the work goes on with the answer
    """The next statement of the work, which has not been asked yet."""

    def __init__(self, spelled: NumberedStatement, parameters: Parameters) -> None:
        super().__init__(spelled.sql)
        self.spelled = spelled
        self.parameters = parameters


@dataclass(frozen=True)
class StatementAnswer:
    """The outcome of a statement. codes: the types of its columns, as the server numbers them; error: it failed."""

    rows: Sequence[Sequence[Any]] = ()
    codes: tuple[int, ...] = ()
    error: DBAPIError | None = None


@dataclass(frozen=True)
class OneStatement(Generic[T]):
    """Work up to its only statement. done: its result, by the answer to the statement; it raises the error of the statement."""

    spelled: NumberedStatement
    parameters: Parameters
    done: Callable[[StatementAnswer], T]


class Fetched:
    """The rows of an answer, as a driver's cursor gives them."""

    def __init__(self, answer: StatementAnswer) -> None:
        self._rows = answer.rows
        self._next = 0
        self.codes = answer.codes

    def fetchone(self) -> Sequence[Any] | None:
        """Return the next row, None behind the last."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int) -> Sequence[Sequence[Any]]:
        """Return so many of the next rows."""
        start, self._next = self._next, self._next + size
        return self._rows[start : self._next]


class Replay:
    """A transaction as its work sees it, with the answers so far. It is used by the event loop, or by one thread."""

    def __init__(self, dialect: Dialect, answers: Sequence[StatementAnswer]) -> None:
        self.dialect = dialect
        self._answers = answers
        self._next = 0

    def run(self, spelled: NumberedStatement, parameters: Parameters) -> AbstractContextManager[Fetched]:
        """The result of the next statement. Raises NeedsAnswer, and the error of the statement."""
        if self._next == len(self._answers):
            raise NeedsAnswer(spelled, parameters)
        answer = self._answers[self._next]
        self._next += 1
        if answer.error is not None:
            raise answer.error
        return nullcontext(Fetched(answer))
