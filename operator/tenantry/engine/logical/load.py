"""A logical copy put into a PostgreSQL that holds no engine yet: all of it in one transaction, or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import orjson
from psycopg import sql
from pydantic import TypeAdapter, ValidationError

from tenantry.engine import records
from tenantry.engine.inventory import is_of_an_engine
from tenantry.engine.logical.catalog import CatalogTable, Tables, names
from tenantry.engine.logical.dump import DIGESTS, TABLES, copied, rows_of
from tenantry.engine.logical.session import keep_migrations_out, session
from tenantry.model.verdicts import Invalid, Problem

if TYPE_CHECKING:
    from tenantry.engine.logical.session import Connection

Member = Callable[[str], BinaryIO]
"""A member of the copy by its name, to be read once. Raises KeyError where there is none."""
_BLOCK = 1 << 20
_MARKED = sql.Identifier(records.VERSIONS.name)


def load(url: str, member: Member, mark: str) -> None:
    """Create and fill the tables. Blocks. Raises Invalid (a broken copy, or existing tables), Halt, OSError.

    mark: identifies the restore. If this restore already ran, and ended before it could report, nothing is done.
    """
    digests = _digests(member)
    comment = f"restored {mark} {hashlib.sha256(orjson.dumps(digests, option=orjson.OPT_SORT_KEYS)).hexdigest()}"
    described = _described(member, digests)
    with session(url) as connection:
        keep_migrations_out(connection)
        with connection.transaction():
            there = names(connection)
            if there and _comment(connection) == comment:
                return
            _refuse_tables(there)
            _make(connection, described)
            for table in described.tables:
                _fill(connection, table, member, digests)
            _bind(connection, described)
            connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(_MARKED, sql.Literal(comment)))


def check_empty(url: str) -> None:
    """Blocks. Raises Invalid where tables of an engine are there, Halt."""
    with session(url) as connection:
        _refuse_tables(names(connection))


def _refuse_tables(there: list[str]) -> None:
    if there:
        raise Invalid((Problem("database", f"is not empty: it holds {len(there)} tables of an engine, {there[0]} among them"),))


def _digests(member: Member) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(member(DIGESTS).read())
    except (KeyError, ValidationError) as error:
        raise _broken(DIGESTS) from error


def _described(member: Member, digests: dict[str, str]) -> Tables:
    try:
        content = member(TABLES).read()
        described = Tables.model_validate_json(content)
    except (KeyError, ValidationError) as error:
        raise _broken(TABLES) from error
    held = {TABLES, *(rows_of(table.name) for table in described.tables)}
    marked = any(table.name == records.VERSIONS.name for table in described.tables)
    if held != digests.keys() or not marked or hashlib.sha256(content).hexdigest() != digests[TABLES]:
        raise _broken(TABLES)
    strange = [table.name for table in described.tables if not is_of_an_engine(table.name)]
    if strange:
        raise Invalid((Problem(TABLES, f"{strange[0]} is not the name of an engine's table"),))
    return described


def _comment(connection: Connection) -> str | None:
    query = "SELECT obj_description(to_regclass(%s), 'pg_class')"
    row = connection.execute(query, (records.VERSIONS.name,)).fetchone()
    return None if row is None or row[0] is None else str(row[0])


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


def _fill(connection: Connection, table: CatalogTable, member: Member, digests: dict[str, str]) -> None:
    digest = hashlib.sha256()
    with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(copied(table))) as copy:
        for block in _blocks(member, rows_of(table.name)):
            digest.update(block)
            copy.write(block)
    if digest.hexdigest() != digests[rows_of(table.name)]:
        raise _broken(rows_of(table.name))


def _blocks(member: Member, name: str) -> Iterator[bytes]:
    try:
        file = member(name)
    except KeyError as error:
        raise _broken(name) from error
    while block := file.read(_BLOCK):
        yield block


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
            position = (sql.Identifier(sequence.name).as_string(connection), sequence.last, sequence.called)
            connection.execute("SELECT setval(%s::regclass, %s, %s)", position)


def _do(connection: Connection, statement: str, *identifiers: str) -> None:
    # Braces of what the catalog spelled stay: only the first ones are places.
    parts = statement.split("{}", len(identifiers))
    spelled: list[sql.Composable] = [_as_is(parts[0])]
    for identifier, part in zip(identifiers, parts[1:], strict=True):
        spelled += [sql.Identifier(identifier), _as_is(part)]
    connection.execute(sql.Composed(spelled), prepare=True)


def _as_is(text: str) -> sql.SQL:
    return sql.SQL(text)


def _broken(member: str) -> Invalid:
    return Invalid((Problem(f"database/{member}", "is broken: it is missing, or not what was written"),))
