"""Planning and carrying out a migration, inside a transaction that the caller holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine.mock import MockConnection
from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import (
    AHEAD,
    EXACT_DIGITS,
    NAME_BYTES,
    check_references,
    go_on_from,
    halt_of,
    last_generated,
    message_of,
    sqlite_driver,
)
from tenantry.engine.migration.alter import alter, fasten, loosen
from tenantry.engine.migration.conversions import conversion
from tenantry.engine.migration.hazards import RowCount
from tenantry.engine.migration.indexes import Ahead, built_ahead, built_of, rename_index, wanted_ahead
from tenantry.engine.migration.locks import EXCLUSIVE, keep_others_out, needed
from tenantry.engine.migration.plan import Plan, Renames, TablePlan, compare
from tenantry.engine.migration.rules import install_rules
from tenantry.engine.migration.seeding import Seeds, seed
from tenantry.engine.migration.shapes import TableShape, declared_shape, real_shapes
from tenantry.engine.migration.tables import metadata_of, prefix_of
from tenantry.model.facts import MigrationStep, list_of
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.manifest import Manifest
from tenantry.tracing.work import span

if TYPE_CHECKING:
    from alembic.operations import Operations

BETWEEN = "_tenantry_new_"
"""Begins the names of tables on their way; app tables begin with a letter."""


class LossRefused(Invalid):
    """The install is refused for what it would do to rows. steps: all that it would do."""

    def __init__(self, why: str, steps: Sequence[MigrationStep]) -> None:
        super().__init__((Problem("install", f"{why}: {list_of(steps)}"),))
        self.steps = tuple(steps)


def plan(connection: sa.Connection, manifest: Manifest) -> tuple[MigrationStep, ...]:
    """Return the steps of an install now, with the rows that each touches. Empty when the tables are as declared."""
    wanted = _compared(connection, manifest, metadata_of(manifest))
    return tuple(_told(connection, wanted))


def migrate(
    connection: sa.Connection,
    manifest: Manifest,
    seeds: Seeds,
    allow_drops: bool,
    listed: Sequence[MigrationStep] | None = None,
    counted: bool = False,
) -> None:
    """Brings the tables to the manifest and seeds those that are new. Raises Invalid; the caller then rolls back.

    listed: the steps that `allow_drops` covers, and no other; all where None. counted: `to_build_ahead` has just refused nothing,
    so rows that a constraint of PostgreSQL refuses are not counted again while the tables are locked.
    """
    metadata = metadata_of(manifest)
    wanted = _compared(connection, manifest, metadata)
    if wanted.steps:
        keep_others_out(connection, needed(connection, wanted, metadata))
        _refuse_losses(connection, wanted, allow_drops, listed, counted)
        try:
            operations = _operations(connection)
            _carry_out(operations, connection, wanted, metadata)
            with span("seed"):
                seed(connection, manifest, metadata, set(wanted.added), seeds)
            if _alters(connection):
                fasten(operations, metadata)
            if seeds or wanted.changed or wanted.dropped:
                check_references(connection, metadata.tables)
        except DBAPIError as error:
            halt = halt_of(error)
            if not isinstance(halt, Invalid):
                raise halt from error  # a full disk is not a fault of the tables
            raise Invalid((Problem("tables", f"the database refuses: {message_of(error.orig)}"),)) from error


def _operations(connection: sa.Connection) -> Operations:
    """Alembic, which takes 10 MiB: a process that changes no tables does without it."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    return Operations(MigrationContext.configure(connection))


def to_build_ahead(
    connection: sa.Connection, manifest: Manifest, allow_drops: bool, listed: Sequence[MigrationStep] | None = None
) -> tuple[Ahead, ...] | None:
    """The indexes that are to be built before `migrate` on PostgreSQL, None if nothing is to be done outside of its transaction.

    Raises Invalid as `migrate` does, without a lock; that counts again, for rows may come in between.
    """
    metadata = metadata_of(manifest)
    wanted = _compared(connection, manifest, metadata)
    if wanted.steps:
        _refuse_losses(connection, wanted, allow_drops, listed)
    ahead = wanted_ahead(connection, wanted, metadata)
    return ahead if ahead or built_ahead(connection) else None


def make_tables(connection: sa.Connection, manifest: Manifest) -> sa.MetaData:
    """Make the tables of an app that has none, without rows. Raises Invalid for those that the database cannot keep as declared.

    On PostgreSQL they have no foreign keys before `bind_tables`.
    """
    metadata = metadata_of(manifest)
    _check_kept(connection, manifest, metadata)
    _create(connection, metadata, list(metadata.tables))
    return metadata


def bind_tables(connection: sa.Connection, metadata: sa.MetaData) -> None:
    """Let the foreign keys hold from now on. Raises Invalid for rows that break one on SQLite, DBAPIError on PostgreSQL."""
    if _alters(connection):
        fasten(_operations(connection), metadata)
    check_references(connection, metadata.tables)


def drop_all(connection: sa.Connection, app: str) -> None:
    """Drops every table of the app, with its data. Foreign keys are off meanwhile."""
    names = _table_names(connection, app)
    keep_others_out(connection, dict.fromkeys(names, EXCLUSIVE))
    _drop(connection, names)


def _drop(connection: sa.Connection, names: Iterable[str]) -> None:
    # CASCADE drops the foreign keys of others to it, never a row.
    cascade = " CASCADE" if connection.dialect.name == "postgresql" else ""
    for name in names:
        connection.exec_driver_sql(f"DROP TABLE {connection.dialect.identifier_preparer.quote(name)}{cascade}")


def _table_names(connection: sa.Connection, app: str) -> list[str]:
    prefix = prefix_of(app)
    return [name for name in sa.inspect(connection).get_table_names() if name.startswith(prefix)]


def _compared(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData) -> Plan:
    prefix = prefix_of(manifest.id)
    if connection.dialect.name == "sqlite":
        install_rules(sqlite_driver(connection))
    _check_kept(connection, manifest, metadata)

    def declared(name: str) -> TableShape:
        return declared_shape(metadata.tables[name], connection.dialect)

    return compare(real_shapes(connection, prefix), list(metadata.tables), declared, _renames(manifest, prefix), prefix)


def _check_kept(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData) -> None:
    """Raises Invalid for tables that the database cannot keep as they are declared."""
    _check_exact(manifest, connection.dialect.name)
    _check_names(metadata, prefix_of(manifest.id), connection.dialect.name)


def _check_exact(manifest: Manifest, dialect: str) -> None:
    most = EXACT_DIGITS.get(dialect)
    problems = [
        Problem(
            f"tables.{table.name}.{column.name}", f"{dialect} keeps decimals exactly up to {most} digits, not {column.precision}"
        )
        for table in manifest.tables
        for column in table.columns
        if most is not None and (column.precision or 0) > most
    ]
    if problems:
        raise Invalid(tuple(problems))


def _check_names(metadata: sa.MetaData, prefix: str, dialect: str) -> None:
    most = NAME_BYTES.get(dialect)
    problems = [
        Problem(f"tables.{name.removeprefix(prefix)}", f"is too long: {dialect} takes {most} bytes, {prefix} included")
        for name in metadata.tables
        if most is not None and len(name) > most
    ]
    if problems:
        raise Invalid(tuple(problems))


def _renames(manifest: Manifest, prefix: str) -> Renames:
    tables = {f"{prefix}{t.name}": f"{prefix}{t.renamed_from}" for t in manifest.tables if t.renamed_from}
    columns = {
        (f"{prefix}{table.name}", column.name): column.renamed_from
        for table in manifest.tables
        for column in table.columns
        if column.renamed_from
    }
    return Renames(tables, columns)


def _told(connection: sa.Connection, wanted: Plan, counted: bool = False) -> Iterator[MigrationStep]:
    for step in wanted.steps:
        blocked = 0 if counted and not step.converts else _count(connection, step.blocks)
        rows = blocked or _count(connection, step.loses)
        if rows or not step.only_blocks:
            yield MigrationStep(step.text, loses_data=rows > 0, rows=rows, impossible=blocked > 0)


def _count(connection: sa.Connection, query: RowCount | None) -> int:
    return 0 if query is None else int(connection.execute(query).scalars().one())


def _refuse_losses(
    connection: sa.Connection, wanted: Plan, allow_drops: bool, listed: Sequence[MigrationStep] | None, counted: bool = False
) -> None:
    steps = list(_told(connection, wanted, counted))
    impossible = [step for step in steps if step.impossible]
    losing = [step for step in steps if step.loses_data]
    if impossible:
        raise LossRefused("the existing rows do not fit", steps)
    if losing and not allow_drops:
        raise LossRefused("it would lose data, and drops are not allowed", steps)
    if listed is not None and not all(any(step.within(one) for one in listed) for step in losing):
        raise LossRefused("it would lose more than was listed", steps)


def _alters(connection: sa.Connection) -> bool:
    """Can the database change a table as it is? SQLite makes it anew instead."""
    return connection.dialect.name == "postgresql"


def _carry_out(operations: Operations, connection: sa.Connection, wanted: Plan, metadata: sa.MetaData) -> None:
    if _alters(connection):
        loosen(operations, wanted)
    for old, new in wanted.renamed:
        if not _alters(connection):
            # By a name between: SQLite takes names that differ in case for the same.
            operations.rename_table(old, f"{BETWEEN}{new}")
            old = f"{BETWEEN}{new}"
        operations.rename_table(old, new)
    for change in wanted.changed:
        with span("change table", table=change.after.name):
            _change(operations, connection, change, metadata.tables[change.after.name])
    with span("create tables", tables=len(wanted.added)):
        _create(connection, metadata, wanted.added)
    with span("drop tables", tables=len(wanted.dropped)):
        _drop(connection, [shape.name for shape in wanted.dropped])


def _create(connection: sa.Connection, metadata: sa.MetaData, names: Sequence[str]) -> None:
    """Spells all statements before the first is executed: measured nearly twice as fast as one after the other."""
    statements: list[str] = []

    def spell(ddl: Any, *_: Any, **__: Any) -> None:
        statements.append(str(ddl.compile(dialect=connection.dialect)))

    tables = [metadata.tables[name] for name in names]
    if _alters(connection):
        # Without foreign keys: those come when the rows are there, in any order.
        for table in tables:
            spell(sa.schema.CreateTable(table, include_foreign_key_constraints=[]))
            for index in sorted(table.indexes, key=lambda one: str(one.name)):
                spell(sa.schema.CreateIndex(index))
    else:
        metadata.create_all(MockConnection(connection.dialect, spell), tables, checkfirst=False)
    for statement in statements:
        connection.exec_driver_sql(statement)


def _change(operations: Operations, connection: sa.Connection, change: TablePlan, table: sa.Table) -> None:
    if _alters(connection):
        alter(operations, change, table)
    elif not change.in_place:
        _rebuild(operations, connection, change, table)
    else:
        for name in change.after.columns:
            if name not in change.before.columns:
                operations.add_column(table.name, table.c[name]._copy())
    _bring_indexes(connection, table)


def _bring_indexes(connection: sa.Connection, table: sa.Table) -> None:
    """Their names tell table and columns, so names are all there is to compare."""
    declared = {str(index.name): index for index in table.indexes}
    inspector = sa.inspect(connection)
    present = {
        str(index["name"]): tuple(map(str, index["column_names"]))
        for index in inspector.get_indexes(table.name)
        if not index["unique"] and not str(index["name"]).startswith(AHEAD)
    }
    missing, gone = declared.keys() - present.keys(), present.keys() - declared.keys()
    ready: dict[tuple[str, ...], str] = {}
    if missing and _alters(connection):
        ready = built_of(connection, table.name) | {present[name]: name for name in gone}
    for name in sorted(missing):
        index = ready.pop(tuple(column.name for column in declared[name].columns), "")
        if index:
            rename_index(connection, index, name)
            gone.discard(index)
        else:
            declared[name].create(connection)
    for name in gone:
        connection.execute(sa.schema.DropIndex(sa.Index(name)))


def _rebuild(operations: Operations, connection: sa.Connection, change: TablePlan, table: sa.Table) -> None:
    """The new table beside the old one, filled from it, and put in its place. Foreign keys are off meanwhile."""
    fresh = _beside(table)
    connection.execute(sa.schema.CreateTable(fresh))
    kept = {change.renamed.get(old, old): old for old in change.before.columns}
    kept = {new: old for new, old in kept.items() if new in change.after.columns}
    source = sa.table(table.name, *map(sa.column, change.before.columns))
    values = [
        _converted(source.c[old], change.before.columns[old].type, change.after.columns[new].type) for new, old in kept.items()
    ]
    connection.execute(fresh.insert().from_select(list(kept), sa.select(*values).select_from(source), include_defaults=False))
    last = last_generated(connection, table.name)
    connection.execute(sa.schema.DropTable(table))
    operations.rename_table(fresh.name, table.name)
    if last is not None:
        go_on_from(connection, table.name, last)


def _beside(table: sa.Table) -> sa.Table:
    """The declared table under another name, with what it references."""
    beside = sa.MetaData()
    for key in table.foreign_keys:
        if key.column.table.name not in beside.tables:
            key.column.table.to_metadata(beside)
    fresh = table.to_metadata(beside, name=f"{BETWEEN}{table.name}")
    fresh.indexes.clear()
    return fresh


def _converted(value: sa.ColumnElement[Any], was: str, now: str) -> sa.ColumnElement[Any]:
    return value if was == now else conversion(was, now).value(value)
