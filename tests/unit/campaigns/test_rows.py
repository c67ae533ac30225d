"""The registry of the campaign and the page that shows it: no row without a test, and no figure that was typed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.campaigns import measured, page
from tests.campaigns.rows import ROWS, Row
from tests.support.parsed_code import parsed, text_of

ROOT = Path(__file__).parents[3]
ASKED = {*(f"R{number}" for number in range(1, 14)), "R3b", *(f"S{number}" for number in range(1, 11))}


def _functions(file: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = parsed(ROOT / file).body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_registry_holds_the_rows_of_the_campaign() -> None:
    assert set(ROWS) == ASKED


def test_every_row_has_a_test() -> None:
    assert [row.id for row in ROWS.values() if not row.parts] == []


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.parts], ids=lambda row: row.id)
def test_the_tests_of_a_row_exist_and_count_their_attempts(row: Row) -> None:
    for part in row.parts:
        for tests in part.tests:
            functions = _functions(tests.file)
            assert set(tests.names) <= set(functions), tests.file
            if part.counted == "tries":
                assert [name for name in tests.names if "tried" not in _parameters(functions[name])] == []


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {each.arg for each in function.args.args}


@pytest.mark.slow
def test_what_is_marked_as_a_campaign_belongs_to_a_row() -> None:
    listed = {tests.file for row in ROWS.values() for part in row.parts for tests in part.tests}
    marked = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if _marked(path)}
    assert marked <= listed


def _marked(path: Path) -> bool:
    if ".campaign" not in text_of(path):
        return False
    return any(isinstance(node, ast.Attribute) and node.attr == "campaign" for node in ast.walk(parsed(path)))


def test_the_page_shows_the_registry_and_the_last_measurements() -> None:
    text = page.PAGE.read_text()
    assert text.partition(page.BEGIN)[2].partition(page.END)[0].strip() == page.table(measured.load()).strip()


def test_a_count_that_is_too_small_is_no_pass() -> None:
    row = ROWS["R2"]
    parts = [measured.MeasuredPart(count=199, passed=9)]
    assert measured.Measured("2026-01-01", "abc", 1, 0, parts).verdict(row) == "too few: faults"
    parts = [measured.MeasuredPart(count=200, passed=9)]
    assert measured.Measured("2026-01-01", "abc", 1, 0, parts).verdict(row) == "passed"


def test_a_skip_that_leaves_a_count_too_small_names_what_is_missing() -> None:
    parts = [measured.MeasuredPart(count=150, passed=3), measured.MeasuredPart(skipped=["x: no server"])]
    assert measured.Measured("2026-01-01", "abc", 1, 0, parts).verdict(ROWS["R8"]) == "not run: needs PostgreSQL"
