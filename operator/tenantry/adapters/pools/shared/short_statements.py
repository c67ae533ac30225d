"""Short statements to the database of a pool, on a connection that is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from tenantry.adapters.pools.shared.catalog import connect, unreachable

if TYPE_CHECKING:
    from tenantry.adapters.pools.shared.catalog import Connection

T = TypeVar("T")
ASK_S = 2.0
"""The longest time that an answer of the pool's database is awaited."""


class ShortStatements:
    """Blocks; for one thread. Each statement is a transaction of its own: a replica that is killed or cut off between two of them
    holds no lock."""

    def __init__(self, url: str) -> None:
        """url: of the pool's own database."""
        self._url = url
        self._kept: Connection | None = None

    def close(self) -> None:
        """Let the connection go."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @contextmanager
    def _asking(self) -> Iterator[Connection]:
        """The connection for a statement. Raises a Transient Halt (PoolServerUnreachable)."""
        import psycopg

        try:
            if self._kept is None or self._kept.closed:
                # No statement is prepared: a pooler may stand between.
                self._kept = connect(self._url, autocommit=True, prepare_threshold=None)
                self._kept.execute("SELECT set_config('statement_timeout', '2s', false)")
            yield self._kept
        except psycopg.Error as error:
            self.close()
            raise unreachable(error) from error


class StatementThread:
    """The thread of one table: while the server does not answer, others do not wait for it."""

    def __init__(self, table: ShortStatements, name: str) -> None:
        self._table = table
        self._thread = ThreadPoolExecutor(1, name)

    async def ask(self, ask: Callable[[], T]) -> T:
        """Return the answer of the database. Raises Halt, TimeoutError."""
        async with asyncio.timeout(ASK_S):
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)

    async def close(self) -> None:
        """Let the connection go."""
        with suppress(TimeoutError):
            await self.ask(self._table.close)
        self._thread.shutdown(wait=False, cancel_futures=True)
