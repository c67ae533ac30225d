"""The rows that changed in a SQLite file, brought into the copy of the engine on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.database import go_on_after
from tenantry.engine.logical.kept_rows import KeptRows, without_references
from tenantry.engine.logical.moments import FileMoment, stale
from tenantry.engine.migration.tables import metadata_of
from tenantry.engine.porting.port import ManifestOf, declared_apps, fill, go_on, told_as_sql
from tenantry.engine.porting.sources import FileTables

if TYPE_CHECKING:
    import sqlite3


class ChangedTables(FileTables):
    """PortedTables of the file with the rows that changed."""

    def __init__(self, connection: sqlite3.Connection, moment: FileMoment) -> None:
        super().__init__(connection)
        self._sequences = moment.sequences

    def last_key(self, table: str) -> int | None:
        return self._sequences.get(table)


class ChangedServer:
    """connection: of `Database.migrating`; moment: of the changes."""

    def __init__(self, connection: sa.Connection, tables: ChangedTables, moment: FileMoment) -> None:
        self._connection = connection
        driver: Any = connection.connection.driver_connection
        self._driver = driver
        self._kept = KeptRows(driver)
        self._tables = tables
        self._moment = moment

    def bring(self, manifest_of: ManifestOf) -> None:
        """Raises a Transient Halt (MoveStale) if they do not fit the earlier copy, Invalid, Halt, DBAPIError."""
        earlier = self._kept.moment
        if not isinstance(earlier, FileMoment) or earlier.id != self._moment.since:
            raise stale("are those of another copy")
        with told_as_sql(), without_references(self._driver):
            for name in sorted(self._tables.columns.keys() & records.TABLES.keys()):
                self._bring(records.TABLES[name])
            go_on_after(self._connection, records.VERSIONS.name, records.VERSIONS.c.seq.name)
            for manifest in declared_apps(self._tables, manifest_of):
                for table in metadata_of(manifest).tables.values():
                    self._bring(table)
                    go_on(self._connection, table, self._tables)
        self._kept.end(self._moment)

    def _bring(self, table: sa.Table) -> None:
        key = [column.name for column in table.primary_key.columns]
        self._kept.remove(table.name, key, self._moment.lost.get(table.name, ()))
        fill(self._connection, table, self._tables)
        if self._kept.add_rows(table.name, self._tables.places(table)) != self._tables.count(table.name):
            raise stale(f"have not the places of all rows of {table.name}")


def keep_file(connection: sa.Connection, moment: FileMoment, tables: FileTables, made: list[sa.Table]) -> None:
    """Keep the places of the rows of a file that a database was filled from. made: the tables there."""
    driver: Any = connection.connection.driver_connection
    kept = KeptRows(driver)
    with told_as_sql():
        for table in made:
            kept.make(table.name, [column.name for column in table.primary_key.columns])
            kept.add_rows(table.name, tables.places(table))
        kept.end(moment)
