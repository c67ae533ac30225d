"""A logical copy put into a PostgreSQL that holds no engine yet: all of it in one transaction, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from tenantry.engine.logical.catalog import CatalogTable, Tables, names
from tenantry.engine.logical.copies import LogicalCopy, Member, open_copy
from tenantry.engine.logical.dump import copied
from tenantry.engine.logical.kept_rows import keep_places
from tenantry.engine.logical.notes import may_fill, note_filled, refuse_tables
from tenantry.engine.logical.session import keep_migrations_out, session

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection


def load(url: str, member: Member, mark: str, *, replaces: bool = False, named: bool = True) -> None:
    """Create and fill the tables. Blocks. Raises Invalid (a broken copy, or existing tables), Halt, OSError.

    mark: identifies the restore. If this restore already ran, and ended before it could report, nothing is done.
    replaces: an earlier copy that was not taken makes way, as `may_fill` says, and changes may be brought to this one. named:
    errors may name the server.
    """
    copy = open_copy(member)
    with session(url, named=named) as connection:
        keep_migrations_out(connection)
        with connection.transaction():
            if not may_fill(connection, mark, copy.digest, replaces=replaces):
                return
            _make(connection, copy.tables)
            for table in copy.tables.tables:
                fill(connection, table, copy)
            _bind(connection, copy.tables)
            if replaces:
                keep_places(connection, member)
            note_filled(connection, mark, copy.digest)


def check_empty(url: str) -> None:
    """Blocks. Raises Invalid where tables of an engine are there, Halt."""
    with session(url) as connection:
        refuse_tables(names(connection))


def _make(connection: Connection, described: Tables) -> None:
    for table in described.tables:
        for sequence in table.sequences:
            _do(connection, "CREATE SEQUENCE {} AS " + sequence.type, sequence.name)
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}{}{}").format(
                sql.Identifier(column.name),
                _as_is(column.type),
                _as_is("" if column.default is None else f" DEFAULT {column.default}"),
                _as_is(" NOT NULL" if column.not_null else ""),
            )
            for column in table.columns
        )
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table.name), columns), prepare=True)


def fill(connection: Connection, table: CatalogTable, copy: LogicalCopy) -> int:
    """Insert the rows of a table, and return how many they are."""
    with connection.cursor() as cursor:
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(copied(table))) as target:
            for block in copy.rows(table.name):
                target.write(block)
        return cursor.rowcount


def go_on(connection: Connection, table: CatalogTable) -> None:
    """Let generated keys go on where they were."""
    for sequence in table.sequences:
        position = (sql.Identifier(sequence.name).as_string(connection), sequence.last, sequence.called)
        connection.execute("SELECT setval(%s::regclass, %s, %s)", position)


def _bind(connection: Connection, described: Tables) -> None:
    """Once the rows are there: keys before those that reference them."""
    for foreign in (False, True):
        for table in described.tables:
            for constraint in table.constraints:
                if constraint.foreign == foreign:
                    _do(connection, "ALTER TABLE {} ADD CONSTRAINT {} " + constraint.definition, table.name, constraint.name)
    for table in described.tables:
        for statement in table.indexes:
            connection.execute(_as_is(statement), prepare=True)
        for sequence in table.sequences:
            _do(connection, "ALTER SEQUENCE {} OWNED BY {}.{}", sequence.name, table.name, sequence.column)
        go_on(connection, table)


def _do(connection: Connection, statement: str, *identifiers: str) -> None:
    # Braces of what the catalog spelled stay: only the first ones are places.
    parts = statement.split("{}", len(identifiers))
    spelled: list[sql.Composable] = [_as_is(parts[0])]
    for identifier, part in zip(identifiers, parts[1:], strict=True):
        spelled += [sql.Identifier(identifier), _as_is(part)]
    connection.execute(sql.Composed(spelled), prepare=True)


def _as_is(text: str) -> sql.SQL:
    return sql.SQL(text)
