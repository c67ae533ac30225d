"""Tables as values: the declared ones and the real ones, in the same form, so that they can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect, ReflectedColumn

from tenantry.engine.database import AHEAD
from tenantry.engine.migration.functions import NOW_ON_SQLITE

GENERATED = "generated"
"""The default of a column whose values a sequence makes."""
_CAST = re.compile(r"(.+)::[a-z ]+(?:\(\d+(?:,\d+)?\))?", re.DOTALL)
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_NUMBERED = re.compile(r"PRIMARY KEY AUTOINCREMENT", re.IGNORECASE)
_NUMBER = re.compile(r"'?(-?[0-9.]+(?:e[+-]?[0-9]+)?)'?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnShape:
    """type: as DDL spells it. default: its SQL, `""` for none.

    narrower: the declared type of a generated key on SQLite, whose generated keys are all as wide as BIGINT; else `""`.
    """

    type: str
    nullable: bool
    default: str = ""
    narrower: str = field(default="", compare=False)

    @property
    def declared(self) -> str:
        """The type that its values must fit."""
        return self.narrower or self.type

    @property
    def constant(self) -> bool:
        """Return True if the default is none or a literal."""
        return not self.default or self.default[0] in "'-0123456789"

    @property
    def same_for_all(self) -> bool:
        """Return True if the default gives all existing rows the same value."""
        return self.constant or self.default.startswith("CURRENT_") or self.default == NOW_ON_SQLITE


@dataclass(frozen=True)
class TableShape:
    """A table. foreign_keys: (columns, table, referenced columns, ON DELETE); checks: expressions by
    name; only the names are compared, which tell the expressions too, for databases spell those in their own way.
    """

    name: str
    columns: Mapping[str, ColumnShape]
    primary_key: tuple[str, ...]
    unique: frozenset[tuple[str, ...]] = frozenset()
    indexes: frozenset[tuple[str, ...]] = frozenset()
    foreign_keys: frozenset[tuple[tuple[str, ...], str, tuple[str, ...], str]] = frozenset()
    checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def constraints(self) -> tuple[object, ...]:
        """Return the constraints that need a rebuild of the table."""
        return (self.primary_key, self.unique, self.foreign_keys, self.checks.keys())


def declared_shape(table: sa.Table, dialect: Dialect) -> TableShape:
    """The shape of a table that SQLAlchemy describes."""
    constraints = table.constraints
    return TableShape(
        name=table.name,
        columns={column.name: _declared_column(column, dialect) for column in table.columns},
        primary_key=tuple(column.name for column in table.primary_key.columns),
        unique=frozenset(_names(c.columns) for c in constraints if isinstance(c, sa.UniqueConstraint)),
        indexes=frozenset(_names(index.columns) for index in table.indexes),
        foreign_keys=frozenset(
            (
                tuple(c.column_keys),
                c.referred_table.name,
                tuple(element.column.name for element in c.elements),
                (c.ondelete or "").upper(),
            )
            for c in constraints
            if isinstance(c, sa.ForeignKeyConstraint)
        ),
        checks={str(c.name): str(c.sqltext) for c in constraints if isinstance(c, sa.CheckConstraint) and c.name},
    )


def real_shapes(connection: sa.Connection, prefix: str) -> dict[str, TableShape]:
    """The shapes of the tables that are really there, by name. One pass over all of them."""
    inspector = sa.inspect(connection)
    names = [name for name in inspector.get_table_names() if name.startswith(prefix)]
    if not names:
        return {}
    columns = inspector.get_multi_columns(filter_names=names)
    keys = inspector.get_multi_pk_constraint(filter_names=names)
    unique = inspector.get_multi_unique_constraints(filter_names=names)
    indexes = inspector.get_multi_indexes(filter_names=names)
    foreign = inspector.get_multi_foreign_keys(filter_names=names)
    checks = inspector.get_multi_check_constraints(filter_names=names)
    dialect, numbered = connection.dialect, _numbered(connection)
    shapes = {}
    for name in names:
        key = (None, name)
        shapes[name] = TableShape(
            name=name,
            columns={column["name"]: _real_column(column, dialect) for column in columns[key]}
            | dict.fromkeys(keys[key]["constrained_columns"] if name in numbered else (), _WIDE),
            primary_key=tuple(keys[key]["constrained_columns"]),
            unique=frozenset(tuple(each["column_names"]) for each in unique.get(key, [])),
            indexes=frozenset(
                tuple(map(str, each["column_names"]))
                for each in indexes.get(key, [])
                if not each["unique"] and not str(each["name"]).startswith(AHEAD)
            ),
            foreign_keys=frozenset(
                (
                    tuple(each["constrained_columns"]),
                    each["referred_table"],
                    tuple(each["referred_columns"]),
                    str(each["options"].get("ondelete", "")).upper(),
                )
                for each in foreign.get(key, [])
            ),
            checks={str(each["name"]): "" for each in checks.get(key, []) if each["name"]},
        )
    return shapes


_WIDE = ColumnShape("BIGINT", nullable=False, default=GENERATED)


def _numbered(connection: sa.Connection) -> frozenset[str]:
    """SQLite's tables whose key it generates; none on PostgreSQL, where the default of a column says so."""
    if connection.dialect.name != "sqlite":
        return frozenset()
    tables = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'")
    return frozenset(name for name, sql in tables if _NUMBERED.search(_QUOTED.sub("", sql)))


def _declared_column(column: sa.Column[Any], dialect: Dialect) -> ColumnShape:
    if column.autoincrement is True and dialect.name == "sqlite":
        wide = ColumnShape("BIGINT", nullable=False, default=GENERATED)
        return replace(wide, narrower="" if isinstance(column.type, sa.BigInteger) else "INTEGER")
    return ColumnShape(column.type.compile(dialect), bool(column.nullable), _declared_default(column, dialect))


def _real_column(column: ReflectedColumn, dialect: Dialect) -> ColumnShape:
    type_ = column["type"].compile(dialect)
    return ColumnShape(type_, column["nullable"], _plain(column["default"] or "", type_))


def _declared_default(column: sa.Column[Any], dialect: Dialect) -> str:
    if column.autoincrement is True and dialect.name == "postgresql":
        return GENERATED
    default = column.server_default
    if not isinstance(default, sa.DefaultClause):
        return ""
    argument = default.arg
    if isinstance(argument, str):
        return _plain("'" + argument.replace("'", "''") + "'", column.type.compile(dialect))
    return _plain(str(argument.compile(dialect=dialect)), column.type.compile(dialect))


def _names(columns: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(column.name) for column in columns)


def _plain(sql: str, type_: str) -> str:
    """Without differences that mean nothing, and that PostgreSQL makes."""
    if sql.startswith("nextval("):
        return GENERATED
    text = _bare(sql)
    if type_.startswith("TIMESTAMP") and text.startswith("'"):
        return f"'{datetime.fromisoformat(text.strip(chr(39))).isoformat(' ')}'"
    number = _NUMBER.fullmatch(text)
    if number and not type_.startswith(("VARCHAR", "TEXT", "JSON")):
        return f"{Decimal(number[1]).normalize():f}"
    return text


def _bare(sql: str) -> str:
    """Without casts, and without parentheses around it all."""
    text = sql.strip()
    while True:
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1].strip()
        elif (cast := _CAST.fullmatch(text)) and not text.endswith("'"):
            text = cast[1].strip()
        else:
            return text
