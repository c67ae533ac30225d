"""SQLAlchemy's engines of databases. Those of files share what is the same for all of them: to make it takes long."""

from __future__ import annotations

import sqlite3
from functools import cache, partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.util import LRUCache

from tenantry.engine.sql.driver import execute_now
from tenantry.engine.sql.functions import add_functions
from tenantry.engine.sql.limits import bound
from tenantry.engine.sql.pool import KeptPool
from tenantry.engine.sql.server_session import Reach, connect_options, connected, pin_transaction
from tenantry.rest.fairness.json_steps import decode_json, encode_json

BUSY_MS = 50
"""The time that SQLite waits for a lock inside a thread. A caller that may wait longer comes again: see transactions.py."""
WRITES = "tenantry_write"
"""The execution option of a connection whose transaction writes."""
MOST_COMPILED = 1000
"""Compiled statements that the engines of files share."""


class FileEngine(Engine):
    """The engine of a SQLite file."""


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(WRITES, False)
    execute_now(connection, "BEGIN IMMEDIATE" if write else "BEGIN").close()


event.listen(FileEngine, "begin", _begin)
_COMPILED: LRUCache[Any, Any] = LRUCache(MOST_COMPILED)


def file_engine(file: Path) -> Engine:
    """Return the engine of a file. It opens nothing."""
    dialect = _file_dialect()
    pool = KeptPool(partial(_opened, str(file)), dialect=dialect)
    pool.file = file
    return FileEngine(pool, dialect, URL.create("sqlite", database=str(file)), execution_options={"compiled_cache": _COMPILED})


@cache
def _file_dialect() -> Dialect:
    """The dialect of all files. What SQLAlchemy asks of a first connection is the library's, and the same for each."""
    memory = create_engine("sqlite://", json_serializer=encode_json, json_deserializer=decode_json)
    with memory.connect():
        pass
    memory.dispose()
    return memory.dialect


@cache
def _on_connect() -> Any:
    return _file_dialect().on_connect_url(make_url("sqlite://"))


def _opened(file: str) -> Any:
    connection = sqlite3.connect(file, timeout=BUSY_MS / 1000, check_same_thread=False)
    try:
        _on_connect()(connection)
        # The driver's own transactions cannot hold DDL; ours begin by the event above.
        connection.isolation_level = None
        bound(connection)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        add_functions(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def parsed(url: str) -> URL:
    """The URL; PostgreSQL's client library knows its scheme by two names. Raises ArgumentError."""
    known = make_url(url)
    return known.set(drivername="postgresql") if known.drivername == "postgres" else known


def server_engine(url: str, reach: Reach | None) -> Engine:
    """Return the engine of a database on a server. It connects to nothing. reach: asked for each connection."""
    from tenantry.engine.sql.server_dialect import DRIVER

    engine = create_engine(
        parsed(url).set(drivername=DRIVER), poolclass=KeptPool, json_serializer=encode_json, json_deserializer=decode_json,
        use_native_hstore=False,
    )  # fmt: skip
    event.listen(engine, "connect", connected, insert=True)  # before the dialect, which learns from it
    event.listen(engine, "begin", pin_transaction)
    event.listen(engine, "do_connect", partial(_address, reach))
    return engine


def _address(reach: Reach | None, _dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
    connect_options(reach, options)
