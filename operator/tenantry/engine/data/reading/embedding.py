"""Related rows within a row, as one expression of its query: an object or null, or an array of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.reading.encoding import ARGUMENTS, Expression, array_of, decoders
from tenantry.engine.data.reading.selection import Embedded, Selection
from tenantry.rest.bodies import invalid

MOST_RELATED = 100
"""Rows of an array, in the order of their primary key."""
LARGEST = 8 << 20
"""Characters of the related rows of one row."""
Shape = Callable[[Any], Any]
"""Turns a parsed JSON value into the field that is shown."""


def related_rows(table: sa.FromClause, embedded: Embedded, dialect: str) -> Expression:
    """The related rows of a row of `table`, as a text of JSON that `reader_of` reads."""
    return sa.func.substr(sa.cast(_rows(table, embedded, dialect), sa.Text), 1, LARGEST + 1, type_=sa.Text())


def reader_of(embedded: Embedded, dialect: Dialect) -> Callable[[str | None], Any]:
    """The reader of what `related_rows` gives. It raises Invalid for more than LARGEST characters."""
    shape = _shape(embedded, dialect)

    def read(text: str | None) -> Any:
        if text is not None and len(text) > LARGEST:
            raise invalid(
                "select", f"the related rows of {embedded.name} are larger than {LARGEST >> 20} MiB: select less of them"
            )
        return shape(None if text is None else orjson.loads(text))

    return read


def _rows(table: sa.FromClause, embedded: Embedded, dialect: str) -> Expression:
    relation = embedded.relation
    other = relation.other.table.alias()
    columns = [relation.other.columns[name] for name in embedded.selection.columns]
    inner = [_as_json(_rows(other, one, dialect), dialect) for one in embedded.selection.embedded]
    item = array_of(columns, other, inner, dialect).label("item")
    found = sa.select(item).select_from(other).where(*(other.c[there] == table.c[here] for here, there in relation.pairs))
    if not relation.many:
        return found.limit(1).correlate(table).scalar_subquery()
    order = [other.c[name] for name in relation.other.key]
    rows = found.order_by(*order).limit(MOST_RELATED).correlate(table).subquery()
    together = sa.func.json_group_array if dialect == "sqlite" else sa.func.json_agg
    empty: Expression = sa.literal_column("'[]'")
    return sa.select(sa.func.coalesce(together(_as_json(rows.c.item, dialect)), empty)).scalar_subquery()


def _as_json(value: Expression, dialect: str) -> Expression:
    """SQLite forgets at the edge of a subquery that a text is JSON."""
    return sa.func.json(value) if dialect == "sqlite" else value


def _shape(embedded: Embedded, dialect: Dialect) -> Shape:
    one = _row_shape(embedded.relation.other, embedded.selection, dialect)
    if embedded.relation.many:
        return lambda rows: [one(row) for row in rows]
    return lambda row: None if row is None else one(row)


def _row_shape(exposed: Exposed, selection: Selection, dialect: Dialect) -> Shape:
    """Take `[[column, ...], ..., related, ...]`, as array_of makes it."""
    readers = decoders(exposed, [exposed.columns[name] for name in selection.columns], dialect)
    chunks = -(-len(readers) // ARGUMENTS)
    inner = [_shape(one, dialect) for one in selection.embedded]

    def shape(row: list[Any]) -> dict[str, Any]:
        values = iter([value for chunk in row[:chunks] for value in chunk])
        columns = iter([v if v is None or read is None else read(v) for read, v in zip(readers, values, strict=True)])
        related = iter([of(value) for of, value in zip(inner, row[chunks:], strict=True)])
        return {name: next(columns if isinstance(field, str) else related)
                for name, field in zip(selection.names, selection.fields, strict=True)}  # fmt: skip

    return shape
