"""Indexes that are built ahead of a migration on PostgreSQL, while others write.

They have names of their own, and the migration's transaction gives them the declared ones. Until then they belong to no version:
none is unique, so they refuse no row, and the next install removes what is left of a killed one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import AHEAD, MIGRATION, Locked, halt_of, lock_name
from tenantry.engine.migration.locks import oldest
from tenantry.engine.migration.plan import Plan, TablePlan

LEAST_BYTES = 1 << 20
"""A smaller table is indexed inside the transaction: its writers wait less for that than for the statements here."""
PATIENCE_S = 240.0
"""Seconds that a build waits for transactions that are older. Nobody waits behind it, but its caller wants the reason."""
_BUILT = """
SELECT c.relname, t.relname, i.indisvalid, (SELECT array_agg(a.attname::text ORDER BY k.place)
  FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(c.relname, :ahead)
"""


@dataclass(frozen=True)
class Ahead:
    """An index of a table, by their present names. name: its own until the migration has it."""

    name: str
    table: str
    columns: tuple[str, ...]


def wanted_ahead(connection: sa.Connection, plan: Plan, declared: sa.MetaData) -> tuple[Ahead, ...]:
    """The indexes of a plan that can be built ahead: of large tables that are not written anew, on columns that are there."""
    found = [ahead for change in plan.changed for ahead in _of_table(plan, change, declared.tables[change.after.name])]
    sizes: dict[str, int] = {ahead.table: _size(connection, ahead.table) for ahead in found}
    return tuple(ahead for ahead in found if sizes[ahead.table] >= LEAST_BYTES)


def built_ahead(connection: sa.Connection) -> Mapping[str, Ahead | None]:
    """The indexes that are there under such names; None for one whose build was interrupted."""
    rows = connection.execute(sa.text(_BUILT), {"ahead": AHEAD})
    return {name: Ahead(name, table, tuple(columns)) if valid else None for name, table, valid, columns in rows}


def build(connection: sa.Connection, wanted: tuple[Ahead, ...], seconds: float) -> None:
    """Build those that are missing, and remove what is left of others. Outside of a transaction. Raises Locked, DBAPIError.

    A build waits for all transactions that are older than it, and nobody waits for a build.
    """
    end = time.monotonic() + seconds
    key = {"what": lock_name(MIGRATION)}
    # One that waited for the lock in a statement would be a transaction, for which a build waits.
    if not connection.execute(sa.text("SELECT pg_try_advisory_lock(hashtextextended(:what, 0))"), key).scalar():
        raise Locked("another install of this engine, or a backup, is running")
    quote = connection.dialect.identifier_preparer.quote
    there, asked = built_ahead(connection), {ahead.name: ahead for ahead in wanted}
    for name in sorted(name for name, found in there.items() if found is None or asked.get(name) != found):
        _bound(connection, end)
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {quote(name)}")
    for name, ahead in sorted(asked.items()):
        if there.get(name) != ahead:
            _bound(connection, end)
            _build(connection, ahead)


def _build(connection: sa.Connection, ahead: Ahead) -> None:
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(map(quote, ahead.columns))
    try:
        connection.exec_driver_sql(f"CREATE INDEX CONCURRENTLY {quote(ahead.name)} ON {quote(ahead.table)} ({columns})")
    except DBAPIError as error:
        if isinstance(halt_of(error), Locked):
            raise Locked(f"an index of table {ahead.table} waits for {oldest(connection)}") from error
        raise


def built_of(connection: sa.Connection, table: str) -> dict[tuple[str, ...], str]:
    """The names of those of a table that are whole, by their columns."""
    return {ahead.columns: ahead.name for ahead in built_ahead(connection).values() if ahead and ahead.table == table}


def rename_index(connection: sa.Connection, name: str, declared: str) -> None:
    """Gives an index another name."""
    quote = connection.dialect.identifier_preparer.quote
    connection.exec_driver_sql(f"ALTER INDEX {quote(name)} RENAME TO {quote(declared)}")


def _of_table(plan: Plan, change: TablePlan, table: sa.Table) -> Iterator[Ahead]:
    present = {change.renamed.get(name, name): name for name in change.before.columns}
    if any(change.before.columns[old].type != change.after.columns[new].type for new, old in present.items() if new in table.c):
        return
    for index in table.indexes:
        columns = tuple(column.name for column in index.columns)
        there = all(column in present for column in columns)
        if there and tuple(present[column] for column in columns) not in change.before.indexes:
            digest = hashlib.blake2s(str(index.name).encode(), digest_size=8).hexdigest()
            yield Ahead(f"{AHEAD}{digest}", plan.present(table.name), tuple(present[column] for column in columns))


def _size(connection: sa.Connection, table: str) -> int:
    quoted = connection.dialect.identifier_preparer.quote(table)
    return int(connection.execute(sa.text("SELECT pg_relation_size(to_regclass(:table))"), {"table": quoted}).scalar_one())


def _bound(connection: sa.Connection, end: float) -> None:
    left = max(1, int((end - time.monotonic()) * 1000))
    limits = f"set_config('statement_timeout', '{left}', false), set_config('lock_timeout', '{int(PATIENCE_S * 1000)}', false)"
    connection.exec_driver_sql(f"SELECT {limits}")
