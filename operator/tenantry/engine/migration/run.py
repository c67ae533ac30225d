"""Planning and carrying out a migration, inside a transaction that the caller holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.exc import DBAPIError

from tenantry.engine.migration.plan import Plan, Renames, Step, TablePlan, compare
from tenantry.engine.migration.shapes import TableShape, declared_shape, real_shapes
from tenantry.engine.migration.tables import metadata_of, prefix_of, value_of
from tenantry.engine.packages.manifest import Manifest, Table
from tenantry.model.facts import MigrationStep
from tenantry.model.verdicts import Invalid, Problem

Seeds = Mapping[str, Callable[[], Iterable[bytes]]]
"""The lines of seed/<table>.ndjson by table."""
BATCH = 1000


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
            _seed(connection, manifest, metadata, {shape.name for shape in wanted.added}, seeds)
        except DBAPIError as error:
            raise Invalid((Problem("tables", f"the database refuses: {error.orig}"),)) from error


def drop_all(connection: sa.Connection, app: str) -> None:
    """Drops every table of the app, with its data."""
    for name in _table_names(connection, app):
        connection.execute(sa.schema.DropTable(sa.Table(name, sa.MetaData())))


def holds_data(connection: sa.Connection, app: str) -> bool:
    """Does the app have tables here?"""
    return bool(_table_names(connection, app))


def _table_names(connection: sa.Connection, app: str) -> list[str]:
    prefix = prefix_of(app)
    return [name for name in sa.inspect(connection).get_table_names() if name.startswith(prefix)]


def _compared(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData) -> Plan:
    prefix = prefix_of(manifest.id)
    declared = {table.name: declared_shape(table, connection.dialect) for table in metadata.tables.values()}
    return compare(real_shapes(connection, prefix), declared, _renames(manifest, prefix), prefix)


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
    rows = _rows_hit(connection, step)
    return MigrationStep(step.text, loses_data=step.hazard != "" and rows > 0, rows=rows)


def _rows_hit(connection: sa.Connection, step: Step) -> int:
    """How many rows the step's hazard is about; 0 makes it harmless."""
    if not step.hazard or not sa.inspect(connection).has_table(step.table):
        return 0
    table = sa.table(step.table, *(sa.column(name) for name in step.columns))
    columns = [table.c[name] for name in step.columns]
    count = sa.select(sa.func.count()).select_from(table)
    if step.hazard == "loses" and columns:
        count = count.where(columns[0].is_not(None))
    elif step.hazard == "nulls":
        count = count.where(columns[0].is_(None))
    elif step.hazard == "duplicates":
        groups = sa.select(*columns).group_by(*columns).having(sa.func.count() > 1).subquery()
        count = sa.select(sa.func.count()).select_from(groups)
    return int(connection.execute(count).scalar_one())


def _refuse_losses(connection: sa.Connection, wanted: Plan, allow_drops: bool) -> None:
    told = [(step, _told(connection, step)) for step in wanted.steps]
    impossible = [told_ for step, told_ in told if step.hazard in ("blocked", "nulls", "duplicates") and told_.loses_data]
    losing = [told_ for step, told_ in told if step.hazard == "loses" and told_.loses_data]
    refused = impossible or ([] if allow_drops else losing)
    if refused:
        why = "the rows that are there do not fit" if impossible else "it would lose data, and drops are not allowed"
        raise Invalid((Problem("install", f"{why}: {'; '.join(map(str, refused))}"),))


def _carry_out(connection: sa.Connection, wanted: Plan, metadata: sa.MetaData) -> None:
    operations = Operations(MigrationContext.configure(connection))
    for old, new in wanted.renamed:
        operations.rename_table(old, new)
    for change in wanted.changed:
        _change(operations, connection, change, metadata.tables[change.after.name])
    metadata.create_all(connection, [metadata.tables[shape.name] for shape in wanted.added], checkfirst=False)
    for shape in wanted.dropped:
        operations.drop_table(shape.name)


def _change(operations: Operations, connection: sa.Connection, change: TablePlan, table: sa.Table) -> None:
    if not change.in_place:
        _rebuild(operations, connection, change, table)
        return
    for name in change.after.columns:
        if name not in change.before.columns:
            operations.add_column(table.name, table.c[name]._copy())
    _bring_indexes(connection, change.before, change.after, table)


def _bring_indexes(connection: sa.Connection, before: TableShape, after: TableShape, table: sa.Table) -> None:
    for index in sa.inspect(connection).get_indexes(table.name):
        columns = tuple(str(name) for name in index["column_names"])
        if not index["unique"] and columns in before.indexes - after.indexes and index["name"]:
            connection.execute(sa.schema.DropIndex(sa.Index(index["name"])))
    for made in table.indexes:
        if tuple(column.name for column in made.columns) in after.indexes - before.indexes:
            made.create(connection)


def _rebuild(operations: Operations, connection: sa.Connection, change: TablePlan, table: sa.Table) -> None:
    """The new table beside the old one, filled from it, and put in its place. Foreign keys are off meanwhile."""
    beside = sa.MetaData()
    for other in table.metadata.tables.values():
        other.to_metadata(beside)
    fresh = table.to_metadata(beside, name=f"{table.name}__new")
    fresh.indexes.clear()
    connection.execute(sa.schema.CreateTable(fresh))
    back = {new: old for old, new in change.renamed.items()}
    kept = [name for name in change.after.columns if back.get(name, name) in change.before.columns]
    source = sa.table(table.name, *(sa.column(back.get(name, name)) for name in kept))
    values = sa.select(*(source.c[back.get(name, name)] for name in kept))
    connection.execute(fresh.insert().from_select(kept, values, include_defaults=False))
    connection.execute(sa.schema.DropTable(table))
    operations.rename_table(fresh.name, table.name)
    for index in table.indexes:
        index.create(connection)


def _seed(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData, added: set[str], seeds: Seeds) -> None:
    declared = {f"{prefix_of(manifest.id)}{table.name}": table for table in manifest.tables}
    for table in metadata.sorted_tables:
        described = declared[table.name]
        if table.name not in added or described.name not in seeds:
            continue
        # Rows of one statement have the same columns: a column that a line leaves out takes its default.
        for _, alike in groupby(_rows(described, seeds[described.name]()), key=_columns_of):
            while batch := list(islice(alike, BATCH)):
                connection.execute(table.insert(), batch)


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
        except (ValueError, KeyError, AttributeError, TypeError, ArithmeticError) as error:
            raise Invalid((Problem(f"seed/{table.name}.ndjson:{number}", f"does not fit the table: {error!r}"),)) from error
        yield row
