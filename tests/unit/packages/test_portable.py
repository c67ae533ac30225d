"""A new package means the same on both databases, and its checks cannot hold up or fill the process."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.model.verdicts import Invalid
from tenantry.packages.portable import check_portable, refusal_of
from tests.unit.engine.schemas import app, column, raw_app, reference, table

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
