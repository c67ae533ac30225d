"""Declared tables as SQLAlchemy knows them, in the app's own name space."""

from __future__ import annotations

import hashlib
from datetime import date
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.type_api import TypeEngine

from tenantry.engine.migration.functions import NewUuid, Now
from tenantry.packages.manifest import Check, Column, ForeignKey, Manifest, Table
from tenantry.packages.values import moment_of


class _KeptJson(sa.types.TypeDecorator[Any]):
    """JSON of which a number is kept as it is written.

    SQLite takes a text in a column of this type for a number where it can, and rounds it. Bytes stay as they are.
    """

    impl = sa.JSON
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Any:
        spell = super().bind_processor(dialect)
        assert spell is not None

        def as_kept(value: Any) -> Any:
            spelled = spell(value)
            is_number = isinstance(spelled, str) and spelled[:1] in "-0123456789"
            return spelled.encode() if is_number else spelled

        return as_kept


ON_DELETE = {"restrict": "RESTRICT", "cascade": "CASCADE", "setNull": "SET NULL"}


def prefix_of(app: str) -> str:
    """Return the prefix of an app's table names on SQLite. None begins another app's: no two underscores stand before `__`."""
    plain = app if "--" in app or app.endswith("-") else app.replace("-", "_")
    return f"{plain}__"


def metadata_of(manifest: Manifest) -> sa.MetaData:
    """All tables of the app, with stable names for their constraints. To be read only: many engines install the same app."""
    return _metadata(manifest.id, manifest.tables)


@lru_cache(maxsize=16)
def _metadata(app: str, tables: tuple[Table, ...]) -> sa.MetaData:
    metadata = sa.MetaData()
    for table in tables:
        _add_table(metadata, app, table)
    return metadata


def _add_table(metadata: sa.MetaData, app: str, table: Table) -> None:
    name = f"{prefix_of(app)}{table.name}"
    arguments: list[sa.schema.SchemaItem] = [_column(column, table) for column in table.columns]
    arguments.append(sa.PrimaryKeyConstraint(*table.primary_key, name=_named("pk", name)))
    arguments += [sa.UniqueConstraint(*key, name=_named("uq", name, *key)) for key in table.unique]
    arguments += [_foreign_key(key, name, app) for key in table.foreign_keys]
    arguments += [_check(check, name) for check in table.checks]
    made = sa.Table(name, metadata, *arguments, sqlite_autoincrement=any(column.generated for column in table.columns))
    for index in table.indexes:
        sa.Index(_named("ix", name, *index.columns), *(made.c[column] for column in index.columns))


def _named(*parts: str, extra: str = "") -> str:
    """Return a name of at most 63 bytes that no other parts have: column `a_b` is not columns `a` and `b`. `extra`: only in
    the digest."""
    digest = hashlib.blake2s("\0".join((*parts, extra)).encode(), digest_size=4).hexdigest()
    return f"{'_'.join(parts)[:54]}_{digest}"


def _check(check: Check, table: str) -> sa.CheckConstraint:
    # As it stands: text() would take `:name` for a parameter.
    return sa.CheckConstraint(sa.literal_column(check.expression), name=_named("ck", table, check.name, extra=check.expression))


def _column(column: Column, table: Table) -> sa.Column[Any]:
    default = _server_default(column)
    return sa.Column(
        column.name,
        type_of(column),
        nullable=column.nullable and column.name not in table.primary_key,
        autoincrement=column.generated,
        server_default=default,
    )


def _server_default(column: Column) -> sa.ColumnElement[Any] | sa.TextClause | str | None:
    value = column.default
    if value is None:
        return None
    if value == "uuid" and column.type == "uuid":
        return NewUuid()
    if value == "now" and column.type == "datetime":
        return Now()
    if value == "now" and column.type == "date":
        return sa.text("CURRENT_DATE")
    if column.type == "date":
        return date.fromisoformat(value).isoformat()
    if column.type == "datetime":
        return moment_of(value).isoformat(" ", "microseconds")
    if isinstance(value, bool):
        return sa.true() if value else sa.false()
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
            return sa.JSON().with_variant(_KeptJson(), "sqlite")
        case "blob":
            return sa.LargeBinary()
        case "uuid":
            return sa.Uuid()


def _foreign_key(key: ForeignKey, table: str, app: str) -> sa.ForeignKeyConstraint:
    target = f"{prefix_of(app)}{key.references}"
    return sa.ForeignKeyConstraint(
        key.columns,
        [f"{target}.{column}" for column in key.to],
        name=_named("fk", table, *key.columns),
        ondelete=ON_DELETE[key.on_delete],
    )
