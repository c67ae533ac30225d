"""Pages that SQLite writes as JSON in one step: the interpreter is given away once, not for each row.

Only for columns whose values SQLite writes as a row shows them; it rounds doubles, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.query import ListQuery, ListShape, statement
from tenantry.engine.data.reading.encoding import ARGUMENTS
from tenantry.engine.sql.spelled import Spelled, spell
from tenantry.packages.manifest import Column

_WRITTEN = frozenset({"integer", "string", "text", "bigint", "boolean", "date", "datetime", "uuid", "json"})


SHORT_LIMIT = 100
"""The most rows of a page that is read in the event loop."""


def may_be_short(query: ListQuery) -> bool:
    """Return True for the first rows in the order of the key: the database has nothing to search or to sort."""
    return query.limit <= SHORT_LIMIT and query.paged and not (query.filters or query.after or query.ordered)


def is_written(exposed: Exposed, query: ListQuery) -> bool:
    """Return True if SQLite can write the rows of the list."""
    names, columns = query.select.names, exposed.columns
    return 2 * len(names) <= ARGUMENTS and all(name in columns and columns[name].type in _WRITTEN for name in names)


def spelled_page(exposed: Exposed, query: ListQuery, dialect: Dialect) -> Spelled:
    """One row: the page's rows as the items of a JSON array, null without rows, and their number."""
    rows = statement(exposed, _shape(query), dialect.name).limit(query.limit).subquery()
    pairs = [part for name in query.select.names for part in (_literal(name), _written(exposed.columns[name], rows.c[name]))]
    item = sa.func.json_object(*pairs)
    return spell(sa.select(sa.func.group_concat(item, type_=sa.Text()), sa.func.count()).select_from(rows), dialect)


def spelled_end(exposed: Exposed, query: ListQuery, dialect: Dialect) -> Spelled:
    """The last row of a full page and the one behind it."""
    found = statement(exposed, _shape(query), dialect.name)
    return spell(found.offset(query.limit - 1).limit(2), dialect)


def _shape(query: ListQuery) -> ListShape:
    """The shape of a list that `may_be_short`: it has no filters and begins at the first row."""
    return ListShape(query.select, query.order, query.limit)


def _literal(name: str) -> sa.ColumnElement[str]:
    # A column's name has letters, digits and `_` only.
    return sa.literal_column(f"'{name}'")


def _written(column: Column, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    match column.type:
        case "bigint":
            return sa.cast(value, sa.Text)
        case "boolean":
            number = sa.type_coerce(value, sa.Integer)
            return sa.case((number.is_(sa.null()), sa.null()), (number != 0, sa.func.json("true")), else_=sa.func.json("false"))
        case "json":
            return sa.func.json(sa.type_coerce(value, sa.Text))
        case "datetime":
            return _moment(sa.type_coerce(value, sa.Text))
        case "uuid":
            return _uuid(sa.type_coerce(value, sa.Text))
    return sa.type_coerce(value, sa.Text)


def _moment(text: sa.ColumnElement[str]) -> sa.ColumnElement[Any]:
    """`2026-02-03 04:05:06.123456`, of which zeros are not shown; a CHECK may have kept a row's older form, without them."""
    day, time, fraction = sa.func.substr(text, 1, 10), sa.func.substr(text, 12, 8), sa.func.substr(text, 20)
    shown = day.concat("T").concat(time).concat(sa.case((fraction == ".000000", ""), else_=fraction)).concat("Z")
    return _if_long(text, {19: shown, 26: shown})


def _uuid(text: sa.ColumnElement[str]) -> sa.ColumnElement[Any]:
    shown: sa.ColumnElement[str] = sa.func.substr(text, 1, 8)
    for start, length in ((9, 4), (13, 4), (17, 4), (21, 12)):
        shown = shown.concat("-").concat(sa.func.substr(text, start, length))
    return _if_long(text, {32: sa.func.lower(shown), 36: sa.func.lower(text)})


def _if_long(text: sa.ColumnElement[str], shown: Mapping[int, sa.ColumnElement[Any]]) -> sa.ColumnElement[Any]:
    """By the length of the text, null for null. A text of another length is no JSON, and ends the statement."""
    ways = [(sa.func.length(text) == length, way) for length, way in shown.items()]
    return sa.case((text.is_(sa.null()), sa.null()), *ways, else_=sa.func.json(text))
