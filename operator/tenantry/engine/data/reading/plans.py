"""Short reads whose query was parsed before: the statement, its converters, and the headers that do not change."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import orjson
from sqlalchemy.engine.interfaces import Dialect
from starlette.requests import Request
from starlette.types import Scope

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.query import ListQuery, parse_query, token_after
from tenantry.engine.data.reading.keys import key_of
from tenantry.engine.data.reading.lists import SHORT_QUERY, is_short, parameters
from tenantry.engine.data.reading.pages import is_written, may_be_short
from tenantry.engine.data.reading.reader import BY_KEY, key_values, tag_of_json
from tenantry.engine.data.reading.selection import parse_select
from tenantry.engine.data.values import json_readers, row_of
from tenantry.engine.sql.driver import ShortRead
from tenantry.engine.sql.quick.replay import OneStatement, StatementAnswer
from tenantry.engine.sql.short_reads import LARGEST_PAGE, NotShort, NotWritten
from tenantry.engine.sql.spelled import Reader as Binder
from tenantry.engine.sql.spelled import Spelled
from tenantry.rest.answers import ReadyAnswer
from tenantry.rest.bodies import names_tag
from tenantry.rest.paging import next_link
from tenantry.rest.routes import refuse_unknown

Converters = list[tuple[int, str, Callable[[Any], Any]]]
_JSON = (b"content-type", b"application/json")


class ReadPlan(Protocol):
    """A read of one table by one query string."""

    def answer(self, read: ShortRead, exposed: Exposed, scope: Scope, wanted: bytes | None) -> ReadyAnswer:
        """Return the answer from a file. wanted: If-None-Match. Raises NotShort, Halt, and the driver's errors."""

    def prepared(self, exposed: Exposed, scope: Scope, wanted: bytes | None) -> OneStatement[ReadyAnswer]:
        """Return the same work on a server. Raises NotShort, Halt."""


def plan_of(scope: Scope, exposed: Exposed, dialect: Dialect, *, one: bool) -> ReadPlan:
    """Return the plan for a request. Raises NotShort, Invalid."""
    request = Request(scope)
    if one:
        refuse_unknown(scope, ("select",))
        asked = request.query_params.get("select", "*")
        if len(asked) > SHORT_QUERY or "(" in asked:
            raise NotShort
        return RowPlan(exposed, asked, dialect)
    query = parse_query(exposed, parameters(request)) if is_short(request) else None
    if query is None or not may_be_short(query):
        raise NotShort
    if not is_written(exposed, query):
        raise NotWritten
    return PagePlan(exposed, query, dialect)


class WholeRows:
    """The rows that a statement of all columns gives, as JSON."""

    def __init__(self, exposed: Exposed, spelled: Spelled, dialect: Dialect) -> None:
        self._names = tuple(exposed.columns)
        self._columns = tuple(exposed.columns.values())
        self._spelled, self._dialect = spelled, dialect
        self._converters: dict[tuple[int, ...], Converters] = {}

    def shown(self, row: Sequence[Any], codes: tuple[int, ...]) -> dict[str, Any]:
        """Return a row as JSON. codes: of the columns' types, as a server numbers them; () for SQLite."""
        known = self._converters.get(codes)
        if known is None:
            readers = self._spelled.readers_by(codes or [None] * len(self._names), self._dialect)
            known = self._converters[codes] = json_readers(self._columns, readers)
        return row_of(self._names, row, known)


class RowPlan:
    """A row by its key."""

    def __init__(self, exposed: Exposed, asked: str, dialect: Dialect) -> None:
        self._spelled = at_hand(exposed, (dialect.name, BY_KEY))
        self._binders = _binders(self._spelled, exposed)
        self._rows = WholeRows(exposed, self._spelled, dialect)
        names = parse_select(exposed, asked).names
        self._shown = None if names == tuple(exposed.columns) else names

    def answer(self, read: ShortRead, exposed: Exposed, scope: Scope, wanted: bytes | None) -> ReadyAnswer:
        """Return the answer, as ReadPlan."""
        return self._of_row(wanted, read.first(self._spelled.sql, self._values(exposed, scope)), ())

    def prepared(self, exposed: Exposed, scope: Scope, wanted: bytes | None) -> OneStatement[ReadyAnswer]:
        """Return the same work on a server, as ReadPlan."""

        def done(answer: StatementAnswer) -> ReadyAnswer:
            if answer.error is not None:
                raise answer.error
            return self._of_row(wanted, next(iter(answer.rows), None), answer.codes)

        return OneStatement(self._spelled, self._values(exposed, scope), done)

    def _values(self, exposed: Exposed, scope: Scope) -> list[Any]:
        """The parameters of the statement. Raises Invalid."""
        key = key_values(exposed, key_of(scope, exposed))
        return [binder(key[place]) if binder else key[place] for place, binder in self._binders]

    def _of_row(self, wanted: bytes | None, row: Sequence[Any] | None, codes: tuple[int, ...]) -> ReadyAnswer:
        if row is None:
            raise NotShort
        whole = self._rows.shown(row, codes)
        body = orjson.dumps(whole)
        tag = tag_of_json(body)
        if wanted is not None and names_tag(wanted.decode("latin-1"), tag):
            return ReadyAnswer(304, [(b"etag", tag.encode())], b"")
        if self._shown is not None:
            body = orjson.dumps({name: whole[name] for name in self._shown})
        return row_answer(200, tag, body)


def _binders(spelled: Spelled, exposed: Exposed) -> list[tuple[int, Binder | None]]:
    """The place of the key's part that each parameter has, and what makes it the driver's. The statement has no others."""
    places = {f"key_{number}": number for number in range(len(exposed.key))}
    order = spelled.numbered[1] if spelled.order is None else spelled.order
    return [(places[name], spelled.binders[name]) for name in order]


class PagePlan:
    """The first rows of a table, as SQLite writes them."""

    def __init__(self, exposed: Exposed, query: ListQuery, dialect: Dialect) -> None:
        self._query = query
        self._page, self._end = (at_hand(exposed, (dialect.name, part, query)) for part in ("page", "end"))
        self._places = self._end.readers_by([None] * len(self._end.types), dialect)[len(query.select.fields) :]

    def prepared(self, exposed: Exposed, scope: Scope, wanted: bytes | None) -> OneStatement[ReadyAnswer]:
        """Raise NotShort: what is saved of a server's list is little."""
        raise NotShort

    def answer(self, read: ShortRead, exposed: Exposed, scope: Scope, wanted: bytes | None) -> ReadyAnswer:
        """Return the answer, as ReadPlan."""
        driver = read.driver
        driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_PAGE)
        items, number = driver.execute(self._page.sql, self._page.parameters({})).fetchone()
        body = b"[" + (items or "").encode() + b"]"
        if number < self._query.limit:
            return ReadyAnswer(200, [_length(body), _JSON], body)
        last, *behind = driver.execute(self._end.sql, self._end.parameters({})).fetchmany(2)
        if not behind:
            return ReadyAnswer(200, [_length(body), _JSON], body)
        values = last[len(self._query.select.fields) :]
        places = [reader(value) if reader else value for value, reader in zip(values, self._places, strict=True)]
        link = next_link(Request(scope), token_after(exposed, self._query, places))["Link"]
        return ReadyAnswer(200, [(b"link", link.encode("latin-1")), _length(body), _JSON], body)


def at_hand(exposed: Exposed, key: Hashable) -> Spelled:
    """The statement of that key, which a thread has compiled. Raises NotShort."""
    known = exposed.statements.known(key)
    if known is None:
        raise NotShort
    return known


def row_answer(status: int, tag: str, body: bytes) -> ReadyAnswer:
    """Return the answer of one row. tag: its ETag."""
    return ReadyAnswer(status, [(b"etag", tag.encode()), _length(body), _JSON], body)


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", str(len(body)).encode()
