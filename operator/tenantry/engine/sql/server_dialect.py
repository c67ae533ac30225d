"""psycopg's dialect of SQLAlchemy without questions of its own: `server_session.connected` asks all at once for it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from tenantry.engine.sql.server_session import ServerSession, session_of

DRIVER = "postgresql+tenantry"
"""The name of the dialect in a URL."""


class ServerDialect(PGDialect_psycopg):
    """Takes what it wants to know of a server from the session that is open."""

    driver = "tenantry"
    supports_statement_cache = True
    _session: ServerSession | None = None

    # SQLAlchemy keeps its questions about tables in the process, by the dialect that asks. Of each closed engine it would keep
    # them, with the dialect, until 128 others have asked.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerDialect) and self._asks_as == other._asks_as

    def __hash__(self) -> int:
        return hash(ServerDialect)  # it stays the same when the server is known

    @property
    def _asks_as(self) -> object:
        """Equal for dialects that ask the same; of its own until the server is known."""
        return id(self) if self._session is None else (self._session.version, self._session.schema)

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        self._session = session_of(connection)
        return self._session.version

    def _get_default_schema_name(self, connection: Connection) -> str | None:  # type: ignore[override]
        return session_of(connection).schema

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        assert self._session is not None
        return self._session.isolation

    def _set_backslash_escapes(self, connection: Connection) -> None:
        self._backslash_escapes = False  # SESSION sees to it


registry.register("postgresql.tenantry", __name__, ServerDialect.__name__)
