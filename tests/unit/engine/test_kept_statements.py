"""Statements that are kept: bounded for a table, and for a process, whatever strangers ask."""

from __future__ import annotations

import pytest

from tenantry.engine.sql import spelled
from tenantry.engine.sql.spelled import KEPT, Spelled, Statements


def statement(length: int = 10) -> Spelled:
    return Spelled("x" * length, (), {}, {}, ())


def kept(statements: Statements, key: object) -> bool:
    """Return True if it is there without being made; make it otherwise."""
    made: list[Spelled] = []

    def make() -> Spelled:
        made.append(statement())
        return made[0]

    statements.of(key, make)
    return not made


def test_a_statement_is_made_once() -> None:
    statements = Statements()
    assert [kept(statements, "a"), kept(statements, "a"), kept(statements, "b")] == [False, True, False]


def test_a_table_keeps_those_that_were_used_last() -> None:
    statements = Statements()
    for number in range(KEPT):
        statements.of(number, statement)
    assert kept(statements, 0)
    statements.of("one more", statement)
    assert (kept(statements, 0), kept(statements, "one more"), kept(statements, 1)) == (True, True, False)


def test_all_tables_of_a_process_together_keep_no_more_than_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelled, "MOST_CHARACTERS", 1 << 20)
    tables = [Statements() for _ in range(50)]
    for number in range(KEPT):
        for table in tables:
            table.of(number, lambda: statement(1000))
    assert spelled._SIZE[0] <= 1 << 20
    assert spelled._SIZE[0] == sum(map(spelled._size, spelled._ALL.values()))
    assert sum(len(table._keys) for table in tables) <= len(spelled._ALL)
    assert kept(tables[-1], KEPT - 1)
    assert not kept(tables[0], 0)


def test_one_that_fails_to_be_made_is_not_kept() -> None:
    statements = Statements()

    def fail() -> Spelled:
        raise ValueError

    with pytest.raises(ValueError):
        statements.of("a", fail)
    assert not kept(statements, "a")
