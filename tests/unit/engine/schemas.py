"""Manifests and databases for tests of migrations, in few words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tenantry.engine.database import Database
from tenantry.engine.migration import run
from tenantry.engine.packages.manifest import Manifest, parse_manifest
from tenantry.model.facts import MigrationStep
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
    return parse_manifest(manifest(tables=list(tables)))


class Tables:
    """The tables of app `crm` in a database of their own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "engine.db"
        self.database = Database(self.file)

    def migrate(self, wanted: Manifest, rows: Rows | None = None, allow_drops: bool = False) -> None:
        seeds = {name: (lambda lines=lines: [json.dumps(row).encode() for row in lines]) for name, lines in (rows or {}).items()}
        with self.database.migrating() as connection:
            run.migrate(connection, wanted, seeds, allow_drops)

    def steps(self, wanted: Manifest) -> tuple[MigrationStep, ...]:
        with self.database.reading() as connection:
            return run.plan(connection, wanted)

    def told(self, wanted: Manifest) -> list[str]:
        """The steps as text; `!` ends those that lose data or are impossible."""
        return [f"{step}{' !' if step.loses_data else ''}" for step in self.steps(wanted)]

    def drop(self) -> None:
        with self.database.migrating() as connection:
            run.drop_all(connection, "crm")

    def rows(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.ask(f'SELECT {columns} FROM "crm__{name}" ORDER BY 1')

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(sql).fetchall()

    def dump(self) -> list[str]:
        """Everything that is in the file, as SQL."""
        return dump(self.file)


def dump(file: Path) -> list[str]:
    """Everything that is in a database file, as SQL."""
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())
