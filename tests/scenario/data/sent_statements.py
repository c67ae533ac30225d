"""The statements on tables of an app that reach the database, as the database itself notes them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from tenantry.engine.service import Engine
from tenantry.engine.sql.pool import KeptPool
from tests.support.waiting import until

TABLES = "crm__"
"""The beginning of the names of all tables of the app."""
END = "the end of the block"


@asynccontextmanager
async def statements_of(engine: Engine) -> AsyncIterator[list[str]]:
    """Yield a list that has the statements of the block after its end."""
    database = engine._transactions._database._engine
    assert database is not None
    found: list[str] = []
    if database.dialect.name == "sqlite":
        async with _traced(database, found):
            yield found
    else:
        async with _logged(database.url.set(drivername="postgresql"), found):
            yield found
    found[:] = [statement for statement in found if TABLES in statement]


@asynccontextmanager
async def _traced(database: sa.Engine, found: list[str]) -> AsyncIterator[None]:
    """SQLite calls for each statement. Connections that are open already are not used again."""

    def trace(connection: sqlite3.Connection, _: Any) -> None:
        connection.set_trace_callback(found.append)

    pool = database.pool
    assert isinstance(pool, KeptPool)
    sa.event.listen(pool, "connect", trace)
    pool.forget()
    try:
        yield
    finally:
        sa.event.remove(pool, "connect", trace)
        pool.forget()


@asynccontextmanager
async def _logged(url: sa.URL, found: list[str]) -> AsyncIterator[None]:
    """PostgreSQL writes each statement to its log, with the name of the database before it."""
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        log = Path(_shown(connection, "data_directory")).parent / "log"
        for setting in ("log_statement = 'all'", "log_line_prefix = '%d: '"):
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: _shown(connection, "log_statement") == "all")
        begin = log.stat().st_size
        try:
            yield
            connection.execute(f"SELECT '{END}'".encode())
            until(lambda: END in log.read_text()[begin:])
        finally:
            connection.execute("ALTER SYSTEM RESET ALL")
            connection.execute("SELECT pg_reload_conf()")
        entries = re.split(r"(?m)^(?=\w*: [A-Z]+:  )", log.read_text()[begin:])
        found += [entry for entry in entries if entry.startswith(f"{url.database}: LOG:  ")]


def _shown(connection: psycopg.Connection, setting: str) -> str:
    return str(connection.execute(f"SHOW {setting}".encode()).fetchone()[0])  # type: ignore[index]
