"""Planning and carrying out a migration, inside a transaction that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.engine.mock import MockConnection
from sqlalchemy.exc import DBAPIError

from tenantry.engine.database import EXACT_DIGITS, check_references, go_on_from, last_generated
from tenantry.engine.migration.conversions import conversion
from tenantry.engine.migration.hazards import RowCount
from tenantry.engine.migration.plan import Plan, Renames, Step, TablePlan, compare
from tenantry.engine.migration.shapes import TableShape, declared_shape, real_shapes
from tenantry.engine.migration.tables import metadata_of, prefix_of, value_of
from tenantry.engine.packages.manifest import Manifest, Table
from tenantry.model.facts import MigrationStep
from tenantry.model.verdicts import Invalid, Problem

Seeds = Mapping[str, Callable[[], Iterable[bytes]]]
"""The lines of seed/<table>.ndjson by table."""
BATCH = 1000
BETWEEN = "_tenantry_new_"
"""Begins the names of tables on their way; app tables begin with a letter."""


def plan(connection: sa.Connection, manifest: Manifest) -> tuple[MigrationStep, ...]:
    """What installing would do now, with the rows that each step touches. Empty when the tables are as declared."""
    wanted = _compared(connection, manifest, metadata_of(manifest))
    return tuple(_told(connection, step) for step in wanted.steps)


def migrate(connection: sa.Connection, manifest: Manifest, seeds: Seeds, allow_drops: bool) -> None:
    """Brings the tables to the manifest and seeds those that are new. Raises Invalid; the caller then rolls back."""
    metadata = metadata_of(manifest)
    wanted = _compared(connection, manifest, metadata)
    if wanted.steps:
        _refuse_losses(connection, wanted, allow_drops)
        try:
            _carry_out(connection, wanted, metadata)
            _seed(connection, manifest, metadata, set(wanted.added), seeds)
            if seeds or wanted.changed or wanted.dropped:
                check_references(connection, metadata.tables)
        except DBAPIError as error:
            raise Invalid((Problem("tables", f"the database refuses: {error.orig}"),)) from error


def drop_all(connection: sa.Connection, app: str) -> None:
    """Drops every table of the app, with its data. Foreign keys are off meanwhile."""
    for name in _table_names(connection, app):
        connection.execute(sa.schema.DropTable(sa.Table(name, sa.MetaData())))


def _table_names(connection: sa.Connection, app: str) -> list[str]:
    prefix = prefix_of(app)
    return [name for name in sa.inspect(connection).get_table_names() if name.startswith(prefix)]


def _compared(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData) -> Plan:
    prefix = prefix_of(manifest.id)
    _check_exact(manifest, connection.dialect.name)

    def declared(name: str) -> TableShape:
        return declared_shape(metadata.tables[name], connection.dialect)

    return compare(real_shapes(connection, prefix), list(metadata.tables), declared, _renames(manifest, prefix), prefix)


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


def _renames(manifest: Manifest, prefix: str) -> Renames:
    tables = {f"{prefix}{t.name}": f"{prefix}{t.renamed_from}" for t in manifest.tables if t.renamed_from}
    columns = {
        (f"{prefix}{table.name}", column.name): column.renamed_from
        for table in manifest.tables
        for column in table.columns
        if column.renamed_from
    }
    return Renames(tables, columns)


def _told(connection: sa.Connection, step: Step) -> MigrationStep:
    rows = _count(connection, step.blocks) or _count(connection, step.loses)
    return MigrationStep(step.text, loses_data=rows > 0, rows=rows)


def _count(connection: sa.Connection, query: RowCount | None) -> int:
    return 0 if query is None else int(connection.execute(query).scalars().one())


def _refuse_losses(connection: sa.Connection, wanted: Plan, allow_drops: bool) -> None:
    impossible = [_told(connection, step) for step in wanted.steps if _count(connection, step.blocks)]
    if impossible:
        raise _refused("the rows that are there do not fit", impossible)
    losing = [_told(connection, step) for step in wanted.steps if _count(connection, step.loses)]
    if losing and not allow_drops:
        raise _refused("it would lose data, and drops are not allowed", losing)


def _refused(why: str, steps: Iterable[MigrationStep]) -> Invalid:
    return Invalid((Problem("install", f"{why}: {'; '.join(map(str, steps))}"),))


def _carry_out(connection: sa.Connection, wanted: Plan, metadata: sa.MetaData) -> None:
    operations = Operations(MigrationContext.configure(connection))
    for old, new in wanted.renamed:
        # By a name between: SQLite takes names that differ in case for the same.
        operations.rename_table(old, f"{BETWEEN}{new}")
        operations.rename_table(f"{BETWEEN}{new}", new)
    for change in wanted.changed:
        _change(operations, connection, change, metadata.tables[change.after.name])
    _create(connection, metadata, wanted.added)
    for shape in wanted.dropped:
        operations.drop_table(shape.name)


def _create(connection: sa.Connection, metadata: sa.MetaData, names: Sequence[str]) -> None:
    """Spells all statements before the first is executed: measured nearly twice as fast as one after the other."""
    statements: list[str] = []

    def spell(ddl: Any, *_: Any, **__: Any) -> None:
        statements.append(str(ddl.compile(dialect=connection.dialect)))

    metadata.create_all(MockConnection(connection.dialect, spell), [metadata.tables[name] for name in names], checkfirst=False)
    for statement in statements:
        connection.exec_driver_sql(statement)


def _change(operations: Operations, connection: sa.Connection, change: TablePlan, table: sa.Table) -> None:
    if not change.in_place:
        _rebuild(operations, connection, change, table)
    else:
        for name in change.after.columns:
            if name not in change.before.columns:
                operations.add_column(table.name, table.c[name]._copy())
    _bring_indexes(connection, table)


def _bring_indexes(connection: sa.Connection, table: sa.Table) -> None:
    """Their names tell table and columns, so names are all there is to compare."""
    declared = {str(index.name): index for index in table.indexes}
    present = {str(index["name"]) for index in sa.inspect(connection).get_indexes(table.name) if not index["unique"]}
    for name in present - declared.keys():
        connection.execute(sa.schema.DropIndex(sa.Index(name)))
    for name in sorted(declared.keys() - present):
        declared[name].create(connection)


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


def _seed(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData, added: set[str], seeds: Seeds) -> None:
    declared = {f"{prefix_of(manifest.id)}{table.name}": table for table in manifest.tables}
    for table in _parents_first(metadata):
        described = declared[table.name]
        if table.name not in added or described.name not in seeds:
            continue
        # Rows of one statement have the same columns: a column that a line leaves out takes its default.
        for _, alike in groupby(_rows(described, seeds[described.name]()), key=_columns_of):
            while batch := list(islice(alike, BATCH)):
                connection.execute(table.insert(), batch)


def _parents_first(metadata: sa.MetaData) -> list[sa.Table]:
    # The last entry stands for the foreign keys of a cycle; the check of references comes after all rows.
    ordered = sa.schema.sort_tables_and_constraints(metadata.tables.values())  # type: ignore[no-untyped-call]
    return [table for table, _ in ordered if table is not None]


def _columns_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row)


def _rows(table: Table, lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The rows of a seed file, each with all columns that any of its lines could have. Raises Invalid naming the line."""
    columns = {column.name: column for column in table.columns}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
            row = {name: value_of(columns[name], value) for name, value in given.items()}
        except (ValueError, KeyError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
            raise Invalid(
                (Problem(f"seed/{table.name}.ndjson:{number}", f"does not fit the table: {_reason(error)}"),)
            ) from error
        yield row


def _reason(error: Exception) -> str:
    return f"no column {error}" if isinstance(error, KeyError) else str(error)
