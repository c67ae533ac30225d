"""Short statements to the database of a pool, on a connection that is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenantry.adapters.pools.shared.catalog import connect, unreachable

if TYPE_CHECKING:
    from tenantry.adapters.pools.shared.catalog import Connection


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
