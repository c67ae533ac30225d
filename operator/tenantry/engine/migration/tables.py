"""Declared tables as SQLAlchemy knows them, in the app's own name space."""

from __future__ import annotations

import base64
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.type_api import TypeEngine

from tenantry.engine.packages.manifest import Column, ForeignKey, Manifest, Table

ON_DELETE = {"restrict": "RESTRICT", "cascade": "CASCADE", "setNull": "SET NULL"}


def prefix_of(app: str) -> str:
    """What the names of an app's tables begin with on SQLite. None begins another app's: before `__` no two underscores stand."""
    plain = app if "--" in app or app.endswith("-") else app.replace("-", "_")
    return f"{plain}__"


def metadata_of(manifest: Manifest) -> sa.MetaData:
    """All tables of the app, with stable names for their constraints."""
    metadata = sa.MetaData()
    for table in manifest.tables:
        _add_table(metadata, manifest.id, table)
    return metadata


def _add_table(metadata: sa.MetaData, app: str, table: Table) -> None:
    name = f"{prefix_of(app)}{table.name}"
    arguments: list[sa.schema.SchemaItem] = [_column(column, table) for column in table.columns]
    arguments.append(sa.PrimaryKeyConstraint(*table.primary_key, name=f"pk_{name}"))
    arguments += [sa.UniqueConstraint(*key, name=f"uq_{name}_{'_'.join(key)}") for key in table.unique]
    arguments += [_foreign_key(key, name, app) for key in table.foreign_keys]
    arguments += [sa.CheckConstraint(sa.text(check.expression), name=f"ck_{name}_{check.name}") for check in table.checks]
    made = sa.Table(name, metadata, *arguments, sqlite_autoincrement=any(column.generated for column in table.columns))
    for index in table.indexes:
        sa.Index(f"ix_{name}_{'_'.join(index.columns)}", *(made.c[column] for column in index.columns))


def _column(column: Column, table: Table) -> sa.Column[Any]:
    default = _server_default(column)
    return sa.Column(
        column.name,
        type_of(column),
        nullable=column.nullable and column.name not in table.primary_key,
        autoincrement=column.generated,
        server_default=default,
        default=uuid.uuid4 if column.default == "uuid" and column.type == "uuid" else None,
    )


def _server_default(column: Column) -> sa.sql.elements.TextClause | str | None:
    value = column.default
    if value is None or (value == "uuid" and column.type == "uuid"):
        return None
    if value == "now" and column.type in ("datetime", "date"):
        return sa.text("CURRENT_TIMESTAMP" if column.type == "datetime" else "CURRENT_DATE")
    if isinstance(value, bool):
        return sa.text("1" if value else "0")
    return sa.text(str(value)) if isinstance(value, int | float) else str(value)


def type_of(column: Column) -> TypeEngine[Any]:
    """The column's type; a generated bigint is an INTEGER on SQLite, whose row ids have 64 bits anyway."""
    match column.type:
        case "integer":
            return sa.Integer()
        case "bigint":
            return sa.BigInteger().with_variant(sa.Integer(), "sqlite") if column.generated else sa.BigInteger()
        case "string":
            return sa.String(column.length)
        case "text":
            return sa.Text()
        case "boolean":
            return sa.Boolean()
        case "decimal":
            return sa.Numeric(column.precision, column.scale or 0)
        case "double":
            return sa.Double()
        case "date":
            return sa.Date()
        case "datetime":
            return sa.DateTime()
        case "json":
            return sa.JSON()
        case "blob":
            return sa.LargeBinary()
        case "uuid":
            return sa.Uuid()


def _foreign_key(key: ForeignKey, table: str, app: str) -> sa.ForeignKeyConstraint:
    target = f"{prefix_of(app)}{key.references}"
    return sa.ForeignKeyConstraint(
        key.columns,
        [f"{target}.{column}" for column in key.to],
        name=f"fk_{table}_{'_'.join(key.columns)}",
        ondelete=ON_DELETE[key.on_delete],
    )


def value_of(column: Column, value: Any) -> Any:
    """A seed's JSON value as the column takes it. Raises ValueError."""
    if value is None:
        return None
    match column.type:
        case "decimal":
            return Decimal(str(value))
        case "date":
            return date.fromisoformat(value)
        case "datetime":
            return datetime.fromisoformat(value).replace(tzinfo=None)
        case "uuid":
            return uuid.UUID(value)
        case "blob":
            return base64.b64decode(value, validate=True)
        case "bigint":
            return int(value)
        case _:
            return value
