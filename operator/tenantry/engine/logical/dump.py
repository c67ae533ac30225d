"""A logical copy of an engine's PostgreSQL, of one moment, while the engine serves: what the tables are, and all their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import psycopg
from psycopg import sql

from tenantry.engine.logical.catalog import CatalogTable, tables
from tenantry.engine.logical.session import keep_migrations_out, session
from tenantry.model.verdicts import Invalid, Problem

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection

TABLES = "tables.json"
DIGESTS = "digests.json"


def rows_of(table: str) -> str:
    """The name of the member with the rows of a table, as COPY spells them."""
    return f"rows/{table}.copy"


def dump(url: str, scratch: Path, *, named: bool = True) -> Generator[str]:
    """Write one member of the copy after the other to that file, replacing the last one, and yield its name. Blocks.

    The last member holds the SHA-256 of all others. Raises Invalid if there is no engine, Halt, OSError. named: errors may
    name the server.
    """
    with session(url, named=named) as connection:
        keep_migrations_out(connection)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection.transaction():
            yield from members(connection, scratch)


def members(connection: Connection, scratch: Path) -> Generator[str]:
    """The same within a transaction that sees one moment."""
    described = tables(connection)
    if not described.tables:
        raise Invalid((Problem("database", "holds no tables of an engine: there is nothing to back up"),))
    digests = {TABLES: write(scratch, [orjson.dumps(described.model_dump(), option=orjson.OPT_INDENT_2)])}
    yield TABLES
    for table in described.tables:
        digests[rows_of(table.name)] = write(scratch, all_rows(connection, table))
        yield rows_of(table.name)
    write(scratch, [orjson.dumps(digests, option=orjson.OPT_INDENT_2)])
    yield DIGESTS


def copied(table: CatalogTable) -> sql.Composed:
    """The table with its columns in their order, as COPY takes it."""
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    return sql.SQL("{} ({})").format(sql.Identifier(table.name), columns)


def all_rows(connection: Connection, table: CatalogTable) -> Iterator[bytes | bytearray | memoryview]:
    """The rows of a table as COPY spells them, in blocks."""
    with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY {} TO STDOUT").format(copied(table))) as copy:
        yield from copy


def write(scratch: Path, blocks: Iterable[bytes | bytearray | memoryview]) -> str:
    """Write a member to that file, and return its SHA-256. Raises OSError."""
    digest = hashlib.sha256()
    with scratch.open("wb") as file:
        for block in blocks:
            file.write(block)
            digest.update(block)
    return digest.hexdigest()
