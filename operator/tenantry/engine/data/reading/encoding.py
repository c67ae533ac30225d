"""Values of columns within JSON that a database writes, so that they come back exactly as from a column.

A database's own JSON rounds doubles (SQLite), knows no bytes and no NaN, and numbers lose digits when they are parsed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.values import Reader, to_json
from tenantry.engine.sql.functions import EXACT
from tenantry.packages.manifest import Column
from tenantry.rest.fairness.json_steps import decode_json

Expression = sa.ColumnElement[Any]
ARGUMENTS = 50
"""Arguments of one function: both databases take about a hundred."""
_AS_THEY_ARE = frozenset({"integer", "bigint", "boolean", "string", "text"})
_OF_TEXT: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "double": float,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "json": decode_json,
    "blob": bytes.fromhex,
    "uuid": uuid.UUID,
}


def array_of(columns: Sequence[Column], table: sa.FromClause, more: Sequence[Expression], dialect: str) -> Expression:
    """A JSON array: arrays of the encoded columns, ARGUMENTS in each, and then `more`."""
    encoded = [_encoded(column, table.c[column.name], dialect) for column in columns]
    chunks = [_array(encoded[start : start + ARGUMENTS], dialect) for start in range(0, len(encoded), ARGUMENTS)]
    return _array([*chunks, *more], dialect)


def decoders(exposed: Exposed, columns: Sequence[Column], dialect: Dialect) -> list[Reader | None]:
    """For each column the way from its encoded value, which is not null, to JSON as a row shows it; None: it is that."""
    return [_decoder(column, exposed.table.c[column.name].type, dialect) for column in columns]


def _array(parts: Sequence[Expression], dialect: str) -> Expression:
    return sa.func.json_array(*parts) if dialect == "sqlite" else sa.func.json_build_array(*parts)


def _encoded(column: Column, value: Expression, dialect: str) -> Expression:
    if dialect == "sqlite":
        return _encoded_sqlite(column, value)
    if column.type in _AS_THEY_ARE:
        return value
    return sa.func.encode(value, sa.literal_column("'hex'")) if column.type == "blob" else sa.cast(value, sa.Text)


def _encoded_sqlite(column: Column, value: Expression) -> Expression:
    match column.type:
        case "double" | "decimal":
            return sa.func.__getattr__(EXACT)(value)
        case "json":  # numbers are kept as bytes, which JSON cannot hold
            return sa.cast(value, sa.Text)
        case "blob":
            return sa.case((value.is_(sa.null()), sa.null()), else_=sa.func.hex(value))
    return value


def _decoder(column: Column, kind: sa.types.TypeEngine[Any], dialect: Dialect) -> Reader | None:
    read = _of_sqlite(column, kind, dialect) if dialect.name == "sqlite" else _OF_TEXT.get(column.type)
    if read is None:
        return (lambda value: to_json(column, value)) if column.type == "bigint" else None
    return lambda value: to_json(column, read(value))


def _of_sqlite(column: Column, kind: sa.types.TypeEngine[Any], dialect: Dialect) -> Reader | None:
    read = kind.dialect_impl(dialect).result_processor(dialect, None)
    match column.type:
        case "double" | "decimal":
            return lambda value: _plain(read, float(value) if isinstance(value, str) else value)
        case "blob":
            return bytes.fromhex
    return read


def _plain(read: Reader | None, value: Any) -> Any:
    return value if read is None else read(value)
