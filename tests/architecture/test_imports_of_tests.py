"""Tests import helpers, never tests: what several tests share lives in tests/support or in a module without `test_`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.parsed_code import parsed, text_of

TESTS = Path(__file__).parents[1]
IMPORT = re.compile(r"^\s*(?:from|import) tests\.[^(\n]*(?:\([^)]*\))?", re.MULTILINE)
"""Only modules with such a line that matters are parsed: all of them take 6 s."""
CONTROLS = {"crash/test_controls.py", "security/test_controls.py"}
"""Each breaks one rule of the product and runs a whole test, which must then fail: that is what they are for."""


def imported_tests(module: ast.Module) -> Iterator[str]:
    """Names of test modules, and of what is imported out of them."""
    for node in ast.walk(module):
        names = [alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)]
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            whole = (node.module or "").rpartition(".")[2].startswith("test_")
            yield from (f"{node.module}.{name}" for name in names if whole or name.startswith("test_"))
        if isinstance(node, ast.Import):
            yield from (name for name in names if name.startswith("tests.") and ".test_" in name)


@pytest.mark.slow
def test_only_controls_import_tests() -> None:
    modules = [path for path in sorted(TESTS.rglob("*.py")) if any("test_" in line for line in IMPORT.findall(text_of(path)))]
    names = {str(path.relative_to(TESTS)): [*imported_tests(parsed(path))] for path in modules}
    assert names.keys() >= CONTROLS
    assert {name: found for name, found in names.items() if found and name not in CONTROLS} == {}


def fixtures_for_all(module: ast.Module) -> Iterator[str]:
    """Names of the fixtures that each test of the module's users needs: pytest finds them only where they are imported."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
            if any(keyword.arg == "autouse" for mark in marks for keyword in mark.keywords):
                yield node.name


def test_a_fixture_for_all_tests_is_imported_with_its_module() -> None:
    needed = {
        f"tests.support.{path.stem}": fixtures
        for path in sorted((TESTS / "support").glob("*.py"))
        if "autouse" in text_of(path) and (fixtures := {*fixtures_for_all(parsed(path))})
    }
    assert needed
    missing = []
    for path in sorted(TESTS.rglob("test_*.py")):
        lines = IMPORT.findall(text_of(path))
        for node in parsed(path).body if any(module in line for line in lines for module in needed) else ():
            if isinstance(node, ast.ImportFrom) and node.module in needed:
                missing += [f"{path.name}: {name}" for name in needed[node.module] - {alias.name for alias in node.names}]
    assert missing == []


@pytest.mark.parametrize("control", sorted(CONTROLS))
def test_controls_import_whole_modules_of_tests(control: str) -> None:
    imported = [*imported_tests(parsed(TESTS / control))]
    assert imported and all(name.rpartition(".")[2].startswith("test_") for name in imported)


@pytest.mark.parametrize(
    "line",
    [
        "from tests.scenario.engines.test_drift import meddle",
        "from tests.scenario.engines import test_drift",
        "import tests.scenario.engines.test_drift",
    ],
)
def test_an_import_of_a_test_is_seen(line: str) -> None:
    assert [*imported_tests(ast.parse(line))]
