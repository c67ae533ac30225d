"""The sender of a request for rows, and the engine that holds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from starlette.requests import Request
from starlette.types import Scope

from tenantry.engine.data.exposure import Exposure
from tenantry.engine.data.live.streaming import Live
from tenantry.engine.principal import RowCaller, Unproven
from tenantry.engine.sql.driver import Reading
from tenantry.engine.sql.quick.replay import OneStatement, Replay

T = TypeVar("T")
Work = Callable[[sa.Connection, Exposure, Mapping[str, str]], T]
"""Work within a transaction, on the installed version of an app, with the caller's roles by app."""
SmallWork = Callable[[sa.Connection | Replay, Exposure, Mapping[str, str]], T]
"""The same for work that raises NotShort for a Replay if it has several statements."""
ReadingWork = Callable[[Reading, Exposure, Mapping[str, str]], T]
"""The same for work that only reads, also in the event loop."""

PreparedWork = Callable[[Dialect, Exposure, Mapping[str, str]], OneStatement[T]]
"""Work of one statement that is done once. It raises NotShort, and Halts that refuse it, before the statement."""


class EngineRows(Protocol):
    """The rows of an engine's apps."""

    @property
    def reads_now(self) -> bool:
        """Return True if `run_now` serves reads of this engine. It is the same for the life of the engine."""

    def run(
        self, app: str, caller: RowCaller, work: Work[T], *, write: bool = False, grows: bool = False, large: bool = False
    ) -> Coroutine[Any, Any, T]:
        """Return the result of `work`, in one transaction over the installed version of the app. Raises Unauthorized, then
        NotFound when none is.

        grows: it may make the database larger. Raises QuotaReached then. large: it may take long, and others do not wait for
        it to commit with them."""

    def run_quick(
        self, app: str, caller: RowCaller, work: SmallWork[T], *, write: bool = False, grows: bool = False
    ) -> Coroutine[Any, Any, T]:
        """Return the result of small work on a table that may be done by one statement. On a server that takes no thread.

        Raises what `run` raises."""

    def run_now(self, app: str, table: str, caller: RowCaller, work: ReadingWork[T], *, single: bool = False) -> T:
        """Return the result of `work` on a table, in the event loop, if it takes no longer than a thread takes to begin.

        single: it has one statement, which it asks by ShortRead.first, and it may be done twice.

        Raises NotShort: `run` serves it. And what `run` raises."""

    def read_late(self, app: str, caller: RowCaller, work: PreparedWork[T]) -> Coroutine[Any, Any, T]:
        """Return the result of `work` on a server, without a thread.

        Raises NotShort: `run` serves it. And what `run` raises."""

    def write_late(self, app: str, caller: RowCaller, work: PreparedWork[T]) -> Coroutine[Any, Any, T]:
        """The same for work that writes, and may make the database larger. Nothing is written after NotShort, which the end of
        the work does not raise."""


class DataEngine(Protocol):
    """The data API's view of an engine. live: the changes of its rows."""

    live: Live
    rows: EngineRows


Sender = tuple[DataEngine, RowCaller]


class Remembering(Protocol):
    """An engine that knows who sent a request of late."""

    @property
    def reads_now(self) -> bool:
        """Return True if the engine's rows may be read in the event loop."""

    def remembered_sender(self, scope: Scope, authorization: bytes) -> Sender | None:
        """Return the engine and who sends the request, without waiting. None: somebody else has to look.

        authorization: the header, as it was sent. The request counts, once."""


Signed = Callable[[Request], Awaitable[Sender]]
"""The engine and who sends the request. Raises Unauthorized, Forbidden."""


async def proven(caller: RowCaller, work: Callable[[RowCaller], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `work`; a password that nobody remembers is checked before a second try."""
    try:
        return await work(caller)
    except Unproven:
        return await work(await caller.proven())
