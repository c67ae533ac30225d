"""The rows of a package's seeds, inserted into the tables that an install creates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DataError, IntegrityError

from tenantry.engine.data.constraints import refusal_of
from tenantry.engine.data.exposure import Exposure
from tenantry.engine.database import go_on_after, message_of
from tenantry.engine.migration.tables import prefix_of
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.manifest import Manifest
from tenantry.packages.seeds import NumberedRow, place_of, rows_of

Seeds = Mapping[str, Callable[[], Iterable[bytes]]]
"""The lines of seed/<table>.ndjson by table."""
BATCH = 1000
_MISFITS = (IntegrityError, DataError)


def seed(connection: sa.Connection, manifest: Manifest, metadata: sa.MetaData, added: set[str], seeds: Seeds) -> None:
    """Insert the rows of new tables, parents first. Raises Invalid naming file and line of a row that breaks a rule."""
    declared = {f"{prefix_of(manifest.id)}{table.name}": table for table in manifest.tables}
    for table in _parents_first(metadata):
        described = declared[table.name]
        if table.name not in added or described.name not in seeds:
            continue
        # Rows of one statement have the same columns: a column that a line leaves out takes its default.
        for _, alike in groupby(rows_of(described, seeds[described.name]()), key=_columns_of):
            while batch := list(islice(alike, BATCH)):
                _insert(connection, manifest, table, batch)
        for column in described.columns:
            if column.generated:
                go_on_after(connection, table.name, column.name)


def _parents_first(metadata: sa.MetaData) -> list[sa.Table]:
    # The last entry stands for the foreign keys of a cycle; the check of references comes after all rows.
    ordered = sa.schema.sort_tables_and_constraints(metadata.tables.values())  # type: ignore[no-untyped-call]
    return [table for table, _ in ordered if table is not None]


def _columns_of(numbered: NumberedRow) -> tuple[str, ...]:
    return tuple(numbered[1])


def _insert(connection: sa.Connection, manifest: Manifest, table: sa.Table, batch: Sequence[NumberedRow]) -> None:
    """Insert all rows at once; only if that fails, one after the other, to name the line."""
    connection.exec_driver_sql("SAVEPOINT seed")
    try:
        connection.execute(table.insert(), [row for _, row in batch])
    except _MISFITS:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT seed")
        for number, row in batch:
            _insert_one(connection, manifest, table, number, row)
    connection.exec_driver_sql("RELEASE SAVEPOINT seed")


def _insert_one(connection: sa.Connection, manifest: Manifest, table: sa.Table, number: int, row: Mapping[str, Any]) -> None:
    try:
        connection.execute(table.insert(), row)
    except _MISFITS as error:
        exposure = Exposure(manifest)
        exposed = exposure.table(exposure.declared_as(table.name))
        place = place_of(exposed.declared, number)
        refusal = refusal_of(error, exposure, exposed, f"{place}: ")
        raise refusal or Invalid((Problem(place, f"the database refuses: {message_of(error.orig)}"),)) from error
