"""A statement that does not end by itself, on both databases."""

from __future__ import annotations

import sqlalchemy as sa

_STATEMENTS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "postgresql": "SELECT pg_sleep(600)",
}


def forever(connection: sa.Connection) -> None:
    """Run it."""
    connection.exec_driver_sql(_STATEMENTS[connection.dialect.name])
