"""The query of a list: `select`, `order`, `limit` and `continue`, and the keyset pages that they make."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa

from tenantry.engine.data.conditions import Condition, comparable, where
from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.filters import Filters, Term
from tenantry.engine.data.reading.embedding import related_rows
from tenantry.engine.data.reading.selection import Embedded, Selection, Visible, parse_select
from tenantry.engine.data.values import from_text, to_json
from tenantry.rest.bodies import invalid

LIMIT = 1000
RESERVED = ("select", "order", "limit", "continue")
LookUp = Callable[[str, Sequence[str]], Any]
LAST = "\U0010ffff"
"""The last code point: behind every text that goes on."""
LONGEST_QUERY = 16 * 1024
LONGEST_PLACE = 200
"""Characters of a value in a `continue` token."""
MOST_PARAMETERS = 200
_NULLS = ("nullsfirst", "nullslast")


@dataclass(frozen=True)
class Order:
    """One column of an order. nulls_first: where NULL stands."""

    column: str
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        direction = "desc" if self.descending else "asc"
        return f"{self.column}.{direction}.{_NULLS[0] if self.nulls_first else _NULLS[1]}"


@dataclass(frozen=True)
class ListQuery:
    """A list as asked for. select: the fields to answer; order: ends in the whole primary key; filters: name and text.

    paged: the request gave a limit. ordered: it gave an order.
    """

    select: Selection
    order: tuple[Order, ...]
    limit: int
    after: str
    filters: tuple[tuple[str, str], ...]
    paged: bool = False
    ordered: bool = False


def parse_query(exposed: Exposed, parameters: Sequence[tuple[str, str]], visible: Visible | None = None) -> ListQuery:
    """The list that a query string asks for. visible: the tables that `select` may name. Raises Invalid naming the parameter."""
    if len(parameters) > MOST_PARAMETERS:
        raise invalid("query", f"has more than {MOST_PARAMETERS} parameters")
    given: dict[str, str] = {}
    for name, text in parameters:
        if name in RESERVED and given.setdefault(name, text) is not text:
            raise invalid(name, "is given twice")
    return ListQuery(
        select=parse_select(exposed, given.get("select", "*"), visible),
        order=_order(exposed, given.get("order", "")),
        limit=_limit(given["limit"]) if "limit" in given else LIMIT,
        after=given.get("continue", ""),
        paged="limit" in given,
        ordered="order" in given,
        filters=tuple((name, text) for name, text in parameters if name not in RESERVED),
    )


@dataclass(frozen=True)
class ListShape:
    """All of a list that its statement depends on: the filters and the place where it begins have no values here.

    nulls: for each part of the place, whether it is NULL; empty on the first page.
    """

    select: Selection
    order: tuple[Order, ...]
    limit: int
    filters: tuple[Term, ...] = ()
    nulls: tuple[bool, ...] = ()


def statement(exposed: Exposed, query: ListShape, dialect: str) -> sa.Select[Any]:
    """The rows of one page and one more, each with its place in the order behind the fields asked for."""
    fields = [_field(exposed, field, dialect) for field in query.select.fields]
    places = [_place(exposed, order.column, dialect).label(_label(n)) for n, order in enumerate(query.order)]
    found = sa.select(*fields, *places).where(*where(exposed, dialect, query.filters))
    if query.nulls:
        found = found.where(_behind(exposed, query, dialect))
    return found.order_by(*(_ordering(exposed, order, dialect) for order in query.order)).limit(query.limit + 1)


def shape_of(exposed: Exposed, query: ListQuery, dialect: str, look_up: LookUp) -> tuple[ListShape, Mapping[str, Any]]:
    """The shape of a list, and its values by parameter. Raises Invalid.

    look_up: reads one column of the row with that key, None where there is none.
    """
    filtered = Filters(exposed, dialect).all_of(query.filters)
    places = _places(exposed, query, look_up) if query.after else []
    begin = {_place_parameter(number): place for number, place in enumerate(places) if place is not None}
    nulls = tuple([place is None for place in places])
    return ListShape(query.select, query.order, query.limit, filtered.shape, nulls), {**filtered.values, **begin}


def _field(exposed: Exposed, field: str | Embedded, dialect: str) -> sa.ColumnElement[Any]:
    if isinstance(field, Embedded):
        # A column of the table may have the name of a related one.
        return related_rows(exposed.table, field, dialect).label(f"_related_{field.name}")
    return exposed.table.c[field]


def token_after(exposed: Exposed, query: ListQuery, places: Sequence[Any]) -> str:
    """The `continue` token of the page behind the row with those values in the order. It holds the beginning of a long text."""
    texts = [_written(exposed, order.column, value) for order, value in zip(query.order, places, strict=True)]
    short = [_shortened(exposed, order.column, text) for order, text in zip(query.order, texts, strict=True)]
    return base64.urlsafe_b64encode(orjson.dumps([_told(query), short])).decode().rstrip("=")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _shortened(exposed: Exposed, column: str, text: str | None) -> str | list[str] | None:
    # A part of the key stays whole: by the key the row is found again.
    if text is None or column in exposed.key or len(text) <= LONGEST_PLACE:
        return text
    return [text[:LONGEST_PLACE], _digest(text)]


def _order(exposed: Exposed, text: str) -> tuple[Order, ...]:
    orders = [_one_order(exposed, term) for term in text.split(",")] if text else []
    named = [order.column for order in orders]
    if len(set(named)) < len(named):
        raise invalid("order", "names a column twice")
    return (*orders, *(Order(name, False, False) for name in exposed.key if name not in named))


def _one_order(exposed: Exposed, term: str) -> Order:
    name, *modifiers = term.split(".")
    column = exposed.columns.get(name)
    if column is None:
        raise invalid("order", f"there is no column {name[:64]!r} in {exposed.name}")
    if column.type in ("json", "blob"):
        raise invalid("order", f"{name} is a {column.type} column, which has no order")
    direction = modifiers.pop(0) if modifiers and modifiers[0] in ("asc", "desc") else "asc"
    nulls = modifiers.pop(0) if modifiers and modifiers[0] in _NULLS else ("", *_NULLS)[1 + (direction == "asc")]
    if modifiers:
        raise invalid("order", f"{term[:64]!r} is not an order: write column, column.desc or column.asc.nullsfirst")
    return Order(name, direction == "desc", nulls == _NULLS[0])


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= LIMIT):
        raise invalid("limit", f"must be a whole number from 1 to {LIMIT}")
    return int(text)


def _place_parameter(number: int) -> str:
    return f"place_{number}"


def _label(number: int) -> str:
    # A column's name begins with a letter.
    return f"_place{number}"


def _told(query: ListQuery) -> str:
    return ",".join(map(str, query.order))


def _place(exposed: Exposed, name: str, dialect: str) -> sa.ColumnElement[Any]:
    return comparable(exposed.table.c[name], dialect)


def _written(exposed: Exposed, name: str, value: Any) -> str | None:
    if value is None:
        return None
    shown = to_json(exposed.columns[name], value)
    return orjson.dumps(shown).decode() if isinstance(shown, bool | float) else str(shown)


def _ordering(exposed: Exposed, order: Order, dialect: str) -> sa.ColumnElement[Any]:
    place = _place(exposed, order.column, dialect)
    directed = place.desc() if order.descending else place.asc()
    if not exposed.table.c[order.column].nullable:
        return directed
    return directed.nulls_first() if order.nulls_first else directed.nulls_last()


def _behind(exposed: Exposed, query: ListShape, dialect: str) -> Condition:
    """Return the condition for rows after a place: after it in the first column, or equal there and after it in the next."""
    level: list[Condition] = []
    ways: list[Condition] = []
    for number, (order, null) in enumerate(zip(query.order, query.nulls, strict=True)):
        column, declared = _place(exposed, order.column, dialect), exposed.table.c[order.column]
        value = None if null else sa.bindparam(_place_parameter(number), type_=declared.type)
        ways.append(sa.and_(*level, _after(column, order, value, declared.nullable is True)))
        level.append(column.is_(sa.null()) if value is None else column == value)
    return sa.or_(*ways)


def _after(column: sa.ColumnElement[Any], order: Order, value: sa.BindParameter[Any] | None, nullable: bool) -> Condition:
    if value is None:
        return column.is_not(sa.null()) if order.nulls_first else sa.false()
    beyond = column < value if order.descending else column > value
    return sa.or_(beyond, column.is_(sa.null())) if nullable and not order.nulls_first else beyond


def _places(exposed: Exposed, query: ListQuery, look_up: LookUp) -> list[Any]:
    """The values of the `continue` token, None for NULL. Raises Invalid."""
    refusal = invalid("continue", "is not a token that this server gave for this order")
    try:
        told, places = orjson.loads(base64.urlsafe_b64decode(query.after.encode("ascii") + b"=" * (-len(query.after) % 4)))
    except (ValueError, TypeError, binascii.Error):
        raise refusal from None
    sound = told == _told(query) and isinstance(places, list) and len(places) == len(query.order)
    if not sound or not all(map(_is_place, places)):
        raise refusal
    by_column = {order.column: place for order, place in zip(query.order, places, strict=True)}
    key = [by_column[name] for name in exposed.key]
    if not all(isinstance(part, str) for part in key):
        raise refusal

    def whole(order: Order, place: str | list[str] | None) -> str | None:
        if not isinstance(place, list):
            return place
        beginning, digest = place
        text = look_up(order.column, key)
        if isinstance(text, str) and _digest(text) == digest:
            return text
        # The row is gone or has changed. The page begins before all texts of that beginning: some come twice, none is left out.
        return f"{beginning}{LAST}" if order.descending else beginning

    return [_read(exposed, order.column, whole(order, place)) for order, place in zip(query.order, places, strict=True)]


def _is_place(place: Any) -> bool:
    long = isinstance(place, list) and len(place) == 2 and all(isinstance(part, str) for part in place)
    return place is None or isinstance(place, str) or long


def _read(exposed: Exposed, name: str, place: str | None) -> Any:
    return None if place is None else from_text(exposed.columns[name], place, "continue")
