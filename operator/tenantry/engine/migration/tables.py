"""Declared tables as SQLAlchemy knows them, in the app's own name space."""

from __future__ import annotations

import base64
import hashlib
import math
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.type_api import TypeEngine

from tenantry.engine.database import NewUuid
from tenantry.engine.packages.defaults import LARGEST
from tenantry.engine.packages.manifest import Check, Column, ForeignKey, Manifest, Table

T = TypeVar("T")


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
    """What the names of an app's tables begin with on SQLite. None begins another app's: before `__` no two underscores stand."""
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


def _named(*parts: str, told: str = "") -> str:
    """A name of at most 63 bytes that no other parts have: column `a_b` is not columns `a` and `b`. told: in the digest only."""
    digest = hashlib.blake2s("\0".join((*parts, told)).encode(), digest_size=4).hexdigest()
    return f"{'_'.join(parts)[:54]}_{digest}"


def _check(check: Check, table: str) -> sa.CheckConstraint:
    # As it stands: text() would take `:name` for a parameter.
    return sa.CheckConstraint(sa.literal_column(check.expression), name=_named("ck", table, check.name, told=check.expression))


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
    if value == "now" and column.type in ("datetime", "date"):
        return sa.text("CURRENT_TIMESTAMP" if column.type == "datetime" else "CURRENT_DATE")
    if column.type == "date":
        return date.fromisoformat(value).isoformat()
    if column.type == "datetime":
        return _moment(value).isoformat(" ", "microseconds")
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


def value_of(column: Column, value: Any) -> Any:
    """A seed's JSON value as the column takes it. Raises ValueError, ArithmeticError or TypeError saying what does not fit."""
    if value is None:
        return None
    match column.type:
        case "integer" | "bigint":
            return _whole(value, column.type)
        case "string" | "text":
            return _string(value, column.length)
        case "decimal":
            return _decimal(value, column.precision or 0, column.scale or 0)
        case "double":
            return _double(value)
        case "boolean":
            return _exactly(bool, value)
        case "date":
            return date.fromisoformat(value)
        case "datetime":
            return _moment(value)
        case "uuid":
            return uuid.UUID(value)
        case "blob":
            return base64.b64decode(value, validate=True)
        case "json":
            return value


def default_of_key(table: Table) -> dict[str, Any]:
    """The default of an integer that is the whole primary key: SQLite would number such rows instead."""
    key = [column for column in table.columns if (column.name,) == table.primary_key]
    return {column.name: column.default for column in key if column.type == "integer" and column.default is not None}


def _whole(value: Any, kind: str) -> int:
    number = int(value) if isinstance(value, str) and kind == "bigint" else _exactly(int, value)
    if not -LARGEST[kind] - 1 <= number <= LARGEST[kind]:
        raise ValueError(f"{number} is out of range")
    return number


def _string(value: Any, length: int | None) -> str:
    text = _exactly(str, value)
    if length is not None and len(text) > length:
        raise ValueError(f"has {len(text)} characters, more than {length}")
    text.encode()  # Half of a surrogate pair is valid in JSON and nowhere else.
    return text


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value) + 0.0  # -0.0 becomes 0.0: SQLite does not keep its sign


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    number = Decimal(str(value))
    if not number.is_finite():
        raise ValueError(f"{value!r} is no finite number")
    with localcontext(prec=2 * precision + 2):
        if abs(number) >= Decimal(10) ** (precision - scale) or round(number, scale) != number:
            raise ValueError(f"{value} has more than {precision} digits, or more than {scale} behind the point")
    return number


def _moment(value: str) -> datetime:
    """In UTC, without an offset, as it is stored."""
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _exactly(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value
