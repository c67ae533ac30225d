"""The rows that changed on a server, brought into the SQLite file of an earlier copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.database import sqlite_driver
from tenantry.engine.logical.copies import Member, blocks_if_any, open_copy
from tenantry.engine.logical.moments import CHANGED, CopyMoment, kept_of, places_of, stale
from tenantry.engine.migration.tables import metadata_of
from tenantry.engine.porting.kept_places import KeptPlaces
from tenantry.engine.porting.port import ManifestOf, declared_apps, fill, go_on, told_as_sql
from tenantry.engine.porting.sources import CopiedTables, FileTables, fields, quoted
from tenantry.engine.porting.values import spelling


class ChangedFile:
    """connection: of `Database.migrating`; kept: the places of the earlier copy; member, moment: of the changes."""

    def __init__(self, connection: sa.Connection, kept: KeptPlaces, member: Member, moment: CopyMoment) -> None:
        self._connection = connection
        self._driver = sqlite_driver(connection)
        self._kept = kept
        self._member = member
        self._moment = moment
        self._tables = CopiedTables(open_copy(lambda name: member(CHANGED + name)))

    def bring(self, manifest_of: ManifestOf) -> None:
        """Raises a Transient Halt (MoveStale) if they do not fit the earlier copy, Invalid, Halt."""
        earlier = self._kept.earlier()
        if (
            earlier is None
            or earlier.moment.id != self._moment.since
            or earlier.moment.tables.keys() != self._tables.columns.keys()
        ):
            raise stale("are those of another copy")
        left = set(self._tables.columns)
        for name in sorted(left & records.TABLES.keys()):
            self._bring(records.TABLES[name])
            left.discard(name)
        # The records say which packages made the tables of apps.
        for manifest in declared_apps(FileTables(self._driver), manifest_of):
            for table in metadata_of(manifest).tables.values():
                self._bring(table)
                go_on(self._connection, table, self._tables)
                left.discard(table.name)
        if left:
            raise stale(f"have the table {min(left)}, which is not here")

    def _bring(self, table: sa.Table) -> None:
        """Bring the rows of a table. All that go or change are deleted first, so no new one meets a key that is free now."""
        name, facts = table.name, self._moment.tables[table.name]
        with told_as_sql():
            if name in self._moment.whole:
                self._kept.clear(name)
                self._driver.execute(f"DELETE FROM {quoted(name)}")  # noqa: S608 - quoted
            else:
                gone = self._kept.remove(name, self._moment.lost.get(name, ()), blocks_if_any(self._member, kept_of(name)))
                if self._delete(table, gone) != len(gone):
                    raise stale(f"have rows of {name} that are not here")
        before = self._driver.total_changes
        fill(self._connection, table, self._tables)
        if (
            facts.key
            and self._kept.add(name, blocks_if_any(self._member, places_of(name))) != self._driver.total_changes - before
        ):
            raise stale(f"have not the places of all rows of {name}")

    def _delete(self, table: sa.Table, keys: Iterable[bytes]) -> int:
        key = self._moment.tables[table.name].key
        stored: list[Callable[[str], Any]] = [spelling(table.c[column].type).stored for column in key]
        where = " AND ".join(f"{quoted(column)} = ?" for column in key)
        found = (tuple(store(str(text)) for store, text in zip(stored, fields(line), strict=True)) for line in keys)
        return self._driver.executemany(f"DELETE FROM {quoted(table.name)} WHERE {where}", found).rowcount  # noqa: S608
