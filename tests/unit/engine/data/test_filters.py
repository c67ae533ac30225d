"""Whatever a query string holds, it finds rows or is refused by name; and pages of any order hold every row once."""

from __future__ import annotations

import base64
import re
import sqlite3
from contextlib import closing
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenantry.engine.data.filters import _glob, _like_pattern, operators_of, split_list
from tenantry.engine.data.query import parse_query
from tenantry.engine.data.writing.given import in_array
from tenantry.model.verdicts import Invalid
from tests.unit.engine.data.tables import THINGS, Things, things

__all__ = ["things"]
COLUMNS = [*THINGS.columns, "nope", "and", "or", "not.or", "select", "order", "limit", "continue"]
OPERATORS = ["eq", "neq", "gt", "gte", "lt", "lte", "in", "is", "like", "ilike", "fts", ""]
VALUES = [
    "1", "-1", "99999999999999999999", "1e400", "1e-400", "NaN", "inf", "1.005", "true", "null", "not_null", "(1,2)", "()", "(",
    '("a,b",c)', '("a', "a*", "%", "\\", "\\%", "[a", "*" * 20, "2026-01-31", "0001-01-01T00:00:00+14:00", "\0", "\ud800", "",
    "9999-12-31T23:59:59-14:00", "2026-01-31T12:00:00Z", "123e4567-e89b-42d3-a456-426614174000", "'; DROP TABLE things --", "😀",
]  # fmt: skip
TERMS = st.builds(
    lambda column, negated, operator, value: f"{column}.{negated}{operator}.{value}",
    st.sampled_from(COLUMNS),
    st.sampled_from(["", "not."]),
    st.sampled_from(OPERATORS),
    st.sampled_from(VALUES) | st.text(max_size=20),
)
GROUPS = st.recursive(
    TERMS,
    lambda inner: st.builds(
        lambda head, terms: f"{head}({','.join(terms)})", st.sampled_from(["and", "or", "not.or"]), st.lists(inner, max_size=4)
    ),
    max_leaves=8,
)
PARAMETERS = st.builds(lambda term: tuple(term.partition(".")[::2]), TERMS) | st.builds(
    lambda name, text: (name, f"({text})"), st.sampled_from(["and", "or", "not.and"]), GROUPS
)
ROW = st.fixed_dictionaries(
    {
        "a": st.integers(0, 5),
        "b": st.text("abAB%_*?[]\\ é", max_size=3),
        "big": st.none() | st.sampled_from(["1", "9223372036854775807", "-9223372036854775808"]),
        "words": st.none() | st.text("abAB%_*?[]\\ é", max_size=3),
        "truth": st.none() | st.booleans(),
        "price": st.none() | st.sampled_from(["0.10", "0.1", "-3.25", "999999.99"]),
        "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "day": st.none() | st.sampled_from(["2026-01-31", "0001-01-01", "9999-12-31"]),
        "moment": st.none()
        | st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000001Z", "1999-01-01T00:00:00+02:00"]),
        "token": st.none() | st.uuids(version=4).map(str),
    }
)
ROWS = st.lists(ROW, max_size=12, unique_by=lambda row: (row["a"], row["b"]))
ORDERED = [name for name, column in THINGS.columns.items() if column.type not in ("json", "blob")]
TERM = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(ORDERED),
    st.sampled_from(["", ".asc", ".desc"]),
    st.sampled_from(["", ".nullsfirst", ".nullslast"]),
)
ORDERS = st.lists(TERM, max_size=3, unique_by=lambda term: term.partition(".")[0]).map(",".join)
EACH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@EACH
@given(st.lists(PARAMETERS, max_size=3))
@example([("moment", "in.(9999-12-31T23:59:59-14:00)")])
@example([("a", "eq.１")])
def test_any_query_finds_rows_or_is_refused(things: Things, parameters: list[tuple[str, str]]) -> None:
    with things.rows() as rows:
        try:
            rows.reader.page(parse_query(THINGS, parameters))
        except Invalid as refused:
            assert all(problem.field for problem in refused.problems)


@pytest.mark.slow
@EACH
@given(ROWS, ORDERS, st.integers(1, 5))
def test_pages_of_any_order_hold_every_row_once(things: Things, given_rows: list[dict[str, Any]], order: str, limit: int) -> None:
    class UndoneError(Exception):
        pass

    with pytest.raises(UndoneError), things.rows() as rows:
        rows.insert(given_rows, in_array)
        whole = orjson.loads(rows.reader.page(parse_query(THINGS, [("order", order)])).body)
        paged, after = [], None
        while after != "":
            query = [("order", order), ("limit", str(limit)), *([("continue", after)] if after else [])]
            page = rows.reader.page(parse_query(THINGS, query))
            paged += orjson.loads(page.body)
            after = page.after
        assert paged == whole and len(whole) == len(given_rows)
        raise UndoneError


@EACH
@given(st.text("aA%_*?[]\\", max_size=6), st.text("aA%_*?[]", max_size=6))
@example("\\*", "*")
@example("\\*", "a")
@example("\\\\*", "\\a")
def test_a_pattern_means_the_same_as_glob(pattern: str, text: str) -> None:
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        return
    expression, position = "", 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
            expression += re.escape(pattern[position])
        else:
            expression += {"%": ".*", "*": ".*", "_": "."}.get(character, re.escape(character))
        position += 1
    with closing(sqlite3.connect(":memory:")) as connection:
        (found,) = connection.execute("SELECT ? GLOB ?", (text, _glob(_like_pattern(pattern)))).fetchone()
    assert bool(found) == bool(re.fullmatch(expression, text, re.DOTALL)), (pattern, _glob(pattern))


LISTS = {
    "()": [],
    "(a)": ["a"],
    "(a,b)": ["a", "b"],
    "(,)": ["", ""],
    '("a,b",c)': ['"a,b"', "c"],
    '("a\\"b")': ['"a\\"b"'],
    "(and(a,b),c)": ["and(a,b)", "c"],
}


def test_lists_are_divided_where_nothing_is_open() -> None:
    assert {text: split_list(text, "f") for text in LISTS} == LISTS


@pytest.mark.parametrize("text", ["", "a", "(", "(a", "a)", '("a)', "(a))", "((a)", "(a)(b)"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="f: "):
        split_list(text, "f")


def test_every_column_type_has_its_operators() -> None:
    told = {name: operators_of(column) for name, column in THINGS.columns.items()}
    assert told["extra"] == told["picture"] == ("is",)
    assert "like" in told["words"] and "like" not in told["token"] and "gt" in told["token"]


def test_a_token_tells_the_place_and_not_the_row(things: Things) -> None:
    with things.rows() as rows:
        rows.insert([{"a": n, "b": "x", "words": "secret"} for n in range(3)], in_array)
        after = rows.reader.page(parse_query(THINGS, [("limit", "1")])).after
    assert orjson.loads(base64.urlsafe_b64decode(after + "==")) == ["a.asc.nullslast,b.asc.nullslast", ["0", "x"]]
