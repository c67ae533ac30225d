"""A new package means the same on both databases, and its checks cannot hold up or fill the process."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from typing import Any

import pytest

from tenantry.model.verdicts import Invalid
from tenantry.packages.portable import FUNCTIONS, check_portable, refusal_of
from tests.unit.engine.schemas import app, column, raw_app, reference, table

DEADLINE_S = 10.0

REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "json in a unique key": (
        [table("t", column("v", "json"), unique=[["v"]])],
        "app.yaml:1: tables[0] (t): json column v cannot be part of a key or an index",
    ),
    "json in an index": ([table("t", column("v", "json"), indexes=[{"columns": ["v"]}])], "json column v cannot be part"),
    "a reference between types": (
        [table("people"), table("pets", column("owner", "text"), foreignKeys=[reference("owner", "people")])],
        "app.yaml:1: tables[1] (pets): owner is text, but people.id, which it references, is integer",
    ),
    "a check that makes a gigabyte": (
        [table("t", checks=[{"name": "c", "expression": "length(zeroblob(id * 100000000)) >= 0"}])],
        "check c calls zeroblob, which is not one of abs,",
    ),
}


@pytest.mark.parametrize(("tables", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_manifest_that_does_not_fit_both_databases_is_refused(tables: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_portable(app(*tables), raw_app(*tables))
    assert reason in str(refused.value)


def test_references_between_types_of_one_kind_are_fine() -> None:
    tables = (table("people"), table("pets", column("owner", "bigint"), foreignKeys=[reference("owner", "people")]))
    check_portable(app(*tables), raw_app(*tables))


@pytest.mark.parametrize(
    "expression",
    [
        '"PercentOff" > 0 AND "PercentOff" <= 100',
        "length(trim(name)) > 3 AND (name LIKE '%pg_sleep(1)%' OR name IN ('a', 'b'))",
        "CASE WHEN (a > 1) THEN (b) ELSE (c) END = 1",
        "CAST(v AS NUMERIC(10, 2)) > 0",
        "COALESCE(a, 0) between (1) and (2)",
    ],
)
def test_harmless_checks_are_taken(expression: str) -> None:
    assert refusal_of(expression) == ""


@pytest.mark.parametrize(
    "expression",
    [
        "zeroblob(1000000000) IS NOT NULL", "randomblob (10) > 1", "printf('%1000000000d', 1) > ''", "pg_sleep(10) IS NULL",
        "pg_catalog.pg_sleep(10) IS NULL", "lo_import('x') > 0", '"zeroblob"(5) > 1', "replace(replace(a, 'a', 'aa'), 'a', 'aa')",
        "a REGEXP '(a+)+$'", "a ~ '(a+)+$'", "a SIMILAR TO 'x'", "EXISTS (SELECT 1)", "(SELECT 1) = 1", "repeat('x', 1000000000)",
        "load_extension('x')", "hex(zeroblob(9)) > ''", "group_concat(a) > ''", "query_to_xml('x', true, true, '') IS NULL",
    ],
)  # fmt: skip
def test_checks_that_could_harm_others_are_refused(expression: str) -> None:
    assert refusal_of(expression)


ROW = [column("v"), column("w"), column("n", "integer"), column("s", "string", length=40), column("d", "json")]

TAKEN = {
    "a name of two parts": "length(v || ', ' || w) > 2",
    "an address": "v LIKE '%_@_%._%' AND v NOT LIKE '% %' AND length(v) < 320",
    "a pattern in parentheses": "(v LIKE ('a%')) = 1 OR v LIKE 'b%' ESCAPE '!'",
    "a search for a constant": "instr(v, '@') > 1 AND trim(v) <> '' AND trim(v, ' -') = v",
    "many short values": " AND ".join(f"s <> 'value{number}'" for number in range(45)),
    "many calls over short values": " + ".join(["coalesce(n, 0)"] * 40) + " > 0",
    "a pattern with an apostrophe": "v NOT LIKE '%''%'",
    "arithmetic": "n * 2 - 1 >= -n % 7 AND (n & 3) <> 2 AND n != 1e3",
    "a choice": "CASE WHEN n = 1 THEN v LIKE 'x%' ELSE v IS NULL END",
    "a list": "s IN (" + ", ".join(f"'{number}'" for number in range(150)) + ")",
    "PostgreSQL's trim": "trim(both ' ' from v) = v AND position('@' in v) > 0 AND substring(v from 1 for 3) <> 'abc'",
}


@pytest.mark.parametrize("expression", TAKEN.values(), ids=TAKEN)
def test_usual_checks_are_light_enough(expression: str) -> None:
    one = table("t", *ROW, checks=[{"name": "c", "expression": expression}])
    check_portable(app(one), raw_app(one))


HEAVY = {
    "a chain of joins": (f"length({'||'.join(['v'] * 200)}) > 0", "|| 199 times; at most 8"),
    "a chain of joins of short values": (f"length({'||'.join(['s'] * 10)}) > 0", "|| 9 times; at most 8"),
    "joins of long values": ("length(v || v || v || v || v) > 0", "weigh 364, at most 200"),
    "copies of copies": (f"{'lower(' * 11}v{')' * 11} <> ''", "weigh 220, at most 200"),
    "a pattern that is joined": ("v not like '%' || substr(v,1,40000) || 'b%'", "LIKE with a pattern that is not a constant"),
    "a pattern of a column": ("v LIKE w", "LIKE with a pattern that is not a constant"),
    "a pattern of a column in parentheses": ("v LIKE (('%' || w))", "LIKE with a pattern that is not a constant"),
    "a pattern that goes on": ("v LIKE ('%') || w", "LIKE with a pattern that is not a constant"),
    "GLOB of a column": ("v GLOB w", "GLOB with a pattern that is not a constant"),
    "ILIKE of a column": ("v ILIKE w", "ILIKE with a pattern that is not a constant"),
    "LIKE as a function": ("like(w, v)", "LIKE with a pattern that is not a constant"),
    "a long pattern": (f"v LIKE '%{'a' * 64}'", "65 characters in the pattern of LIKE; at most 64"),
    "many patterns": (" AND ".join(f"v NOT LIKE '%{'a' * 30}{number}'" for number in range(4)), "at most 200"),
    "a search for a column": ("instr(v, w) > 0", "a part that is not a constant"),
    "PostgreSQL's search for a column": ("position(w in v) > 0", "a part that is not a constant"),
    "a set of characters of a column": ("trim(v, w) <> ''", "a set of characters that is not a constant"),
    "PostgreSQL's set of characters of a column": ("trim(both w from v) <> ''", "a set of characters that is not a constant"),
    "a format of a column": ("strftime(v, 'now') <> ''", "a format that is not a constant"),
    "a regular expression as a place": ("substring(v from '(a+)+$') <> ''", "places that are not numbers"),
    "a column as a regular expression": ("substring(v, w) <> ''", "places that are not numbers"),
    "a type that fills up": ("cast(v as char(10485760)) <> ''", "at most CHAR(1000)"),
    "a power": ("n ^ 100000 > 0", "holds '^', which is not an operator"),
    "a path with a regular expression": ("d @? 'x'", "holds '@', which is not an operator"),
    "a quote of dollars": ("v <> $a$ ' $a$ and v <> $a$ ' $a$", "holds '$', which is not an operator"),
    "JSON that is read again and again": (" AND ".join(["d -> 'a' IS NULL"] * 11), "weigh 220, at most 200"),
    "operators": ("+".join(["n"] * 202) + " > 0", "202 operators and calls; at most 200"),
}


@pytest.mark.parametrize(("expression", "reason"), HEAVY.values(), ids=HEAVY)
def test_a_heavy_check_is_refused_with_its_place_and_a_way_out(expression: str, reason: str) -> None:
    one = table("t", *ROW, checks=[{"name": "c", "expression": expression}])
    with pytest.raises(Invalid) as refused:
        check_portable(app(one), raw_app(one))
    (problem,) = refused.value.problems
    assert problem.field == "app.yaml:1: tables[0].checks[0].expression (t)"
    assert problem.reason.startswith("check c ")
    assert reason in problem.reason


def test_the_checks_of_a_table_weigh_together() -> None:
    one = table("t", *ROW, checks=[{"name": f"c{number}", "expression": "v || w <> 'x'"} for number in range(5)])
    with pytest.raises(Invalid) as refused:
        check_portable(app(one), raw_app(one))
    (problem,) = refused.value.problems
    assert problem.field == "app.yaml:1: tables[0].checks[2].expression (t)"
    assert "makes the checks of t weigh 270, at most 200 are allowed: use fewer" in problem.reason
    assert "(v, w, d)" in problem.reason


LONG = 400_000
"""Characters of a value for which work that grows with the square takes minutes, and other work far less than a second."""
OPERATORS = (
    "||", "+", "-", "*", "/", "%", "<", "=", "<>", "&", "<<", "LIKE", "NOT LIKE", "GLOB", "IS", "->", "->>", "AND",
)  # fmt: skip


def _called(function: str) -> list[str]:
    """Calls with arguments of each kind, over long values."""
    given = ("v", "v, w", "w, v", "v, w, v", "v, 1", "v, 1, 2", "'%s', v", "v, 'a'", "v as text", "v as numeric")
    return [f"{function}({arguments}) IS NULL" for arguments in given]


SHAPES = {name: _called(name) for name in sorted(FUNCTIONS | {"like", "glob"})} | {
    operator: [f"(v {operator} w) IS NULL", f"(v {operator} '%{'a' * 60}b') IS NULL"] for operator in OPERATORS
}


@pytest.mark.parametrize("expressions", SHAPES.values(), ids=SHAPES)
def test_no_check_that_is_taken_takes_longer_than_its_values_are_long(expressions: list[str]) -> None:
    for expression in expressions:
        one = table("t", *ROW, checks=[{"name": "c", "expression": expression}])
        try:
            check_portable(app(one), raw_app(one))
        except Invalid:
            continue
        with closing(sqlite3.connect(":memory:")) as database:
            began = time.thread_time()
            with suppress(sqlite3.Error):  # a function of the other database, or a row that the check refuses
                database.execute(f"CREATE TABLE t (v, w, n, s, d, CHECK ({expression}))")
                database.execute("INSERT INTO t VALUES (?, ?, 1, '', '{}')", ("a" * LONG, "a" * (LONG // 2) + "b"))
            assert time.thread_time() - began < DEADLINE_S, expression
