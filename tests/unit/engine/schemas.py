"""Manifests and databases for tests of migrations, in few words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.engine.database import Database
from tenantry.engine.migration import run
from tenantry.model.facts import MigrationStep
from tenantry.packages.manifest import Manifest
from tenantry.packages.parsing import parse_manifest
from tests.unit.engine.archives import manifest

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
ID = {"name": "id", "type": "integer"}
SIZES = {"string": {"length": 20}, "decimal": {"precision": 9, "scale": 2}}


def column(name: str, type_: str = "text", **fields: Any) -> dict[str, Any]:
    """A column; strings and decimals get a size."""
    return {"name": name, "type": type_, **SIZES.get(type_, {}), **fields}


def table(name: str, *columns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A table with an integer key `id`."""
    return {"name": name, "primaryKey": ["id"], "columns": [ID, *columns], **fields}


def reference(column_: str, to: str, **fields: Any) -> dict[str, Any]:
    """A foreign key to another table's `id`."""
    return {"columns": [column_], "references": to, "to": ["id"], **fields}


def app(*tables: dict[str, Any]) -> Manifest:
    """The manifest of app `crm` with those tables."""
    return parse_manifest(raw_app(*tables))


def raw_app(*tables: dict[str, Any]) -> bytes:
    """Its app.yaml."""
    return manifest(tables=list(tables))


class Tables:
    """The tables of app `crm` in a database of their own: a file in the folder, or the one at the URL."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.file = folder / "engine.db"
        self.on_sqlite = url is None
        self.database = Database(self.file, url)

    def migrate(
        self, wanted: Manifest, rows: Rows | None = None, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        seeds = {name: (lambda lines=lines: [json.dumps(row).encode() for row in lines]) for name, lines in (rows or {}).items()}
        with self.database.migrating() as connection:
            run.migrate(connection, wanted, seeds, allow_drops, listed)

    def steps(self, wanted: Manifest) -> tuple[MigrationStep, ...]:
        with self.database.reading() as connection:
            return run.plan(connection, wanted)

    def told(self, wanted: Manifest) -> list[str]:
        """The steps as text."""
        return [str(step) for step in self.steps(wanted)]

    def drop(self) -> None:
        with self.database.migrating() as connection:
            run.drop_all(connection, "crm")

    def rows(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """As SQLite keeps them: times as text, decimals as numbers, flags as 0 and 1."""
        return [tuple(map(_plain, row)) for row in self.ask(f'SELECT {columns} FROM "crm__{name}" ORDER BY 1')]

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with self.database.reading() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(sql.replace("%", "%%") if not self.on_sqlite else sql)]

    def do(self, sql: str) -> None:
        with self.database.writing() as connection:
            connection.exec_driver_sql(sql)

    def names(self) -> list[str]:
        """The tables that are there."""
        with self.database.reading() as connection:
            return sorted(sa.inspect(connection).get_table_names())

    def dump(self) -> list[str]:
        """Everything that is in the database: rows, columns, constraints, indexes."""
        if self.on_sqlite:
            return dump(self.file)
        with self.database.reading() as connection:
            return portrait(connection)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return int(value)
        case Decimal():
            return float(value)
        case datetime():
            return value.isoformat(" ")
        case str():
            return value.removesuffix(".000000")
        case date() | UUID():
            return str(value)
    return value


def dump(file: Path) -> list[str]:
    """Everything that is in a database file, as SQL."""
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


def portrait(connection: sa.Connection) -> list[str]:
    """Everything that is in a database of PostgreSQL, sequences included."""
    quoted = connection.dialect.identifier_preparer.quote_identifier
    queries = [
        "SELECT table_name, column_name, data_type, is_nullable, column_default, character_maximum_length, numeric_scale "
        "FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace",
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public'",
    ]
    queries += [f"SELECT '{name}', * FROM {quoted(name)}" for name in sa.inspect(connection).get_table_names()]
    return sorted(str(tuple(row)) for query in queries for row in connection.exec_driver_sql(query))
