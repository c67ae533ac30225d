"""SQLite converts plain values by itself, and to what the rules in Python make of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry.engine.migration import rules
from tenantry.engine.migration.shortcuts import in_sqlite

TYPES = [
    "TEXT", "VARCHAR(5)", "VARCHAR(40)", "INTEGER", "BIGINT", "BOOLEAN", "NUMERIC(5, 2)", "NUMERIC(12, 0)", "NUMERIC(15, 6)",
    "DOUBLE", "DATE", "DATETIME",
]  # fmt: skip
WHOLE = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1100, 1100),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**53 + 1, -(2**53) - 1, 10**12, 10**12 - 1]),
)
REAL = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-(10**6), 10**6, places=2, allow_nan=False, allow_infinity=False).map(float),
    st.decimals(-(10**9), 10**9, places=6, allow_nan=False, allow_infinity=False).map(float),
    WHOLE.map(float),
)
TEXT = st.text(max_size=45)
STORED: dict[str, st.SearchStrategy[Any]] = {
    "TEXT": TEXT,
    "VARCHAR": TEXT,
    "INTEGER": WHOLE,
    "BIGINT": WHOLE,
    "BOOLEAN": st.booleans().map(int),
    "NUMERIC": st.one_of(WHOLE, REAL),
    "DOUBLE": REAL,
    "DATE": st.dates().map(str),
    "DATETIME": st.datetimes().map(lambda value: value.isoformat(" ", "microseconds")),
}
PLAIN: list[tuple[Any, str, str]] = [
    ("order-1", "VARCHAR(40)", "VARCHAR(80)"),
    ("order-1", "VARCHAR(40)", "TEXT"),
    ("order-1", "TEXT", "VARCHAR(40)"),
    (7, "INTEGER", "BIGINT"),
    (7, "BIGINT", "INTEGER"),
    (7, "INTEGER", "DOUBLE"),
    (7, "INTEGER", "NUMERIC(12, 0)"),
    (7, "INTEGER", "NUMERIC(12, 2)"),
    (7.25, "NUMERIC(5, 2)", "NUMERIC(15, 6)"),
    (7.25, "NUMERIC(5, 2)", "DOUBLE"),
    (7.0, "DOUBLE", "INTEGER"),
    (7, "INTEGER", "TEXT"),
    (1, "BOOLEAN", "INTEGER"),
    (1, "INTEGER", "BOOLEAN"),
    (1, "BOOLEAN", "VARCHAR(5)"),
    ("2026-01-02", "DATE", "DATETIME"),
    ("2026-01-02", "DATE", "TEXT"),
    ("2026-01-02 03:04:05.000000", "DATETIME", "DATE"),
    (None, "TEXT", "VARCHAR(40)"),
    (None, "BIGINT", "INTEGER"),
]


class Rules:
    """A connection with the three functions. calls: how often SQLite asked one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.calls = 0
        for name, field in ((rules.CONVERTED, 0), (rules.CUTS, 1), (rules.BREAKS, 2)):
            connection.create_function(name, 3, self._counted(field))

    def _counted(self, field: int) -> Any:
        def function(value: Any, was: str, now: str) -> Any:
            self.calls += 1
            return rules.convert(value, was, now)[field]

        return function

    def applied(self, value: Any, was: str, now: str) -> tuple[Any, str, int, int]:
        """The new value, how it is stored, and whether it is cut or in the way."""
        converted, cuts, breaks = (in_sqlite(rule, "v", was, now) for rule in (rules.CONVERTED, rules.CUTS, rules.BREAKS))
        query = f"SELECT {converted}, typeof({converted}), {cuts}, {breaks} FROM (SELECT ? AS v)"
        found: tuple[Any, str, int, int] = self._connection.execute(query, (value,)).fetchone()
        return found


@pytest.fixture(scope="module")
def asked() -> Iterator[Rules]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield Rules(connection)


def of_rules(value: Any, was: str, now: str) -> tuple[Any, str, int, int]:
    told = rules.convert(value, was, now)
    stored = {type(None): "null", str: "text", int: "integer", float: "real"}[type(told.value)]
    return told.value, stored, int(told.cuts), int(told.breaks)


@pytest.mark.parametrize("now", TYPES)
@pytest.mark.parametrize("was", TYPES)
def test_a_value_becomes_what_the_rules_say(asked: Rules, was: str, now: str) -> None:
    if was == now:
        return

    @settings(deadline=None)
    @given(st.one_of(st.none(), STORED[was.partition("(")[0]]))
    def holds(value: Any) -> None:
        assert asked.applied(value, was, now) == of_rules(value, was, now)

    holds()


@pytest.mark.parametrize(("value", "was", "now"), PLAIN)
def test_a_plain_value_costs_no_call_of_python(asked: Rules, value: Any, was: str, now: str) -> None:
    before = asked.calls
    assert asked.applied(value, was, now) == of_rules(value, was, now)
    assert asked.calls == before


def test_a_value_that_sqlite_reads_otherwise_is_left_to_the_rules(asked: Rules) -> None:
    before = asked.calls
    assert asked.applied("a\0" + "b" * 10, "TEXT", "VARCHAR(5)") == ("a\0bbb", "text", 1, 0)
    assert asked.calls > before
