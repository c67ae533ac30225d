"""The tables of an engine made anew in a database of the other kind, as its packages declare them, and filled with its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import DBAPIError

from tenantry.engine import records
from tenantry.engine.database import go_on_after, go_on_from, sequence_of, sqlite_driver
from tenantry.engine.inventory import is_of_an_app
from tenantry.engine.migration import run
from tenantry.engine.migration.moments import note_new
from tenantry.engine.migration.tables import metadata_of, prefix_of
from tenantry.engine.porting.sources import PortedTables
from tenantry.engine.porting.values import spelling
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.manifest import Manifest

ManifestOf = Callable[[str], Manifest]
"""The manifest of a stored package by its SHA-256. Raises Halt."""


def port(
    tables: PortedTables,
    manifest_of: ManifestOf,
    connection: sa.Connection,
    filled: Callable[[sa.Table], None] = lambda table: None,
) -> None:
    """Make and fill the tables in a database that has none of an engine. connection: of `Database.migrating`.

    filled: called with each table that has its rows. Blocks. Raises Invalid for tables of which no package is stored, and for
    rows that the database cannot keep as they are; Halt.
    """
    apps = list(declared_apps(tables, manifest_of))
    note_new(connection)
    records.prepare(connection)
    for name in sorted(tables.columns.keys() & records.TABLES.keys()):
        fill(connection, records.TABLES[name], tables)
        filled(records.TABLES[name])
    go_on_after(connection, records.VERSIONS.name, records.VERSIONS.c.seq.name)
    for manifest in apps:
        metadata = run.make_tables(connection, manifest)
        for table in metadata.tables.values():
            fill(connection, table, tables)
            go_on(connection, table, tables)
            filled(table)
        run.bind_tables(connection, metadata)


def declared_apps(tables: PortedTables, manifest_of: ManifestOf) -> Iterator[Manifest]:
    """Return the package of each app that has tables: the installed one, or the last stored one that made them."""
    stored = sorted(tables.rows(records.VERSIONS, ("seq", "app", "sha256")), key=lambda row: int(row[0] or 0), reverse=True)
    installed = {str(app): sha256 for app, sha256 in tables.rows(records.INSTALLED, ("app", "sha256"))}
    there = {name: columns for name, columns in tables.columns.items() if is_of_an_app(name)}
    for app in sorted({str(row[1]) for row in stored}):
        own = {name: columns for name, columns in there.items() if name.startswith(prefix_of(app))}
        versions = [str(sha256) for _, of, sha256 in stored if of == app]
        if own:
            by_rank = sorted(versions, key=lambda one: one != installed.get(app))
            yield _maker(app, own, map(manifest_of, by_rank), tables.dialect)
        there = {name: columns for name, columns in there.items() if name not in own}
    if strange := [name for name in tables.columns if name in there or not (is_of_an_app(name) or name in records.TABLES)]:
        told = f"its table {strange[0]} belongs to no package that is stored, so it cannot be brought along"
        raise Invalid((Problem("database", told),))


def _maker(app: str, own: Mapping[str, Mapping[str, str]], versions: Iterable[Manifest], dialect: Dialect) -> Manifest:
    there = {name: {column: _plain(type_) for column, type_ in columns.items()} for name, columns in own.items()}
    for manifest in versions:
        declared = metadata_of(manifest).tables.values()
        if there == {table.name: {each.name: _plain(each.type.compile(dialect)) for each in table.columns} for table in declared}:
            return manifest
    told = f"the tables of {app} are those of no version that is stored: upload that version, or drop the data of the app"
    raise Invalid((Problem("database", told),))


def _plain(type_: str) -> str:
    """Return a type as PostgreSQL's catalog, its DDL and SQLite all spell it."""
    return type_.lower().replace("character varying", "varchar").replace(", ", ",")


def fill(connection: sa.Connection, table: sa.Table, tables: PortedTables) -> None:
    """Insert the rows of a table."""
    columns = list(tables.columns[table.name])
    strange = [name for name in columns if name not in table.c]
    if strange:
        raise Invalid((Problem("database", f"this release does not know the column {strange[0]} of {table.name}"),))
    target = _fill_file if connection.dialect.name == "sqlite" else _fill_server
    with told_as_sql():
        target(connection, table, columns, tables)


def _fill_server(connection: sa.Connection, table: sa.Table, columns: Sequence[str], tables: PortedTables) -> None:
    from psycopg import sql

    driver: Any = connection.connection.driver_connection
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), listed)
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in tables.rows(table, columns):
            copy.write_row(row)


def _fill_file(connection: sa.Connection, table: sa.Table, columns: Sequence[str], tables: PortedTables) -> None:
    quoted = connection.dialect.identifier_preparer.quote_identifier
    stored = [spelling(table.c[name].type).stored for name in columns]
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {quoted(table.name)} ({', '.join(map(quoted, columns))}) VALUES ({places})"  # noqa: S608 - quoted
    rows = (
        tuple(None if text is None else store(text) for store, text in zip(stored, row, strict=True))
        for row in tables.rows(table, columns)
    )
    sqlite_driver(connection).executemany(statement, rows)


def go_on(connection: sa.Connection, table: sa.Table, tables: PortedTables) -> None:
    """Generated keys go on after the last that was made, also if its row is gone."""
    last = tables.last_key(table.name)
    generated = next((column.name for column in table.columns if column.autoincrement is True), None)
    if last is None or last < 1 or generated is None:
        return  # SQLite notes a 0 for a table that was rebuilt while it was empty
    if connection.dialect.name == "sqlite":
        go_on_from(connection, table.name, last)
    else:
        position = {"sequence": sequence_of(connection, table.name, generated), "last": last}
        connection.execute(sa.text("SELECT setval(:sequence, :last)"), position)


@contextmanager
def told_as_sql() -> Iterator[None]:
    """Raise errors of a driver as SQLAlchemy does, for who understands those."""
    try:
        yield
    except sqlite3.Error as error:
        raise DBAPIError(None, None, error) from error
    except Exception as error:
        if hasattr(error, "sqlstate"):  # psycopg.Error, without its import where there is no server
            raise DBAPIError(None, None, error) from error
        raise
