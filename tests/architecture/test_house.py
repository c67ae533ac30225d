"""What can be measured of the house rules: sizes, names, docstrings, purity, and that nothing of a machine is in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "tenantry"
MODULES = sorted(PACKAGE.rglob("*.py"))
DECISIONS = sorted(PACKAGE.glob("kinds/*/decide.py"))
PURE = frozenset(
    {"__future__", "collections", "dataclasses", "datetime", "enum", "functools", "itertools", "re", "typing", "uuid"}
)
"""What a decision may import besides values of ours."""
# The path of somebody's folder, as it gets into a file by accident; a container's own /tmp or /var is none.
MACHINE_PATH = re.compile(r"(?<![\w.$~}])/(?:work|home|Users|root)/[\w.]")
REGISTRY = re.compile(r"https?://[\w.-]*(?:pypi|proxy\.golang|artifactory|nexus|jfrog)[\w.-]*", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


def functions_of(module: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(module)) if isinstance(node, Function))


def lines_of(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def named(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[str, str]]:
    """Tracked text files, by name."""
    for path in tracked():
        try:
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")
        except UnicodeDecodeError:
            continue


def test_a_module_has_at_most_400_lines() -> None:
    assert {named(one): n for one in MODULES if (n := len(one.read_text("utf-8").splitlines())) > 400} == {}


def test_a_function_has_at_most_40_lines() -> None:
    long = {f"{named(one)}: {each.name}": lines_of(each) for one in MODULES for each in functions_of(one) if lines_of(each) > 40}
    assert long == {}


def test_functions_are_short() -> None:
    lengths = sorted(lines_of(each) for one in MODULES for each in functions_of(one))
    assert median(lengths) <= 8
    assert lengths[len(lengths) * 9 // 10] <= 30


def test_no_module_is_a_drawer() -> None:
    assert [named(one) for one in MODULES if one.stem in ("utils", "helpers", "common", "errors", "misc", "base")] == []


def test_what_is_public_tells_what_it_is() -> None:
    assert [name for one in MODULES for name in _untold(one)] == []


def _untold(module: Path) -> Iterator[str]:
    """Public modules, classes and functions without a docstring. What a Protocol tells, its implementations need not repeat."""
    tree = tree_of(module)
    if tree.body and not ast.get_docstring(tree):
        yield named(module)
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node):
            yield f"{named(module)}: {node.name}"


def test_a_package_s_front_door_holds_no_code() -> None:
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    doors = [one for one in MODULES if one.name == "__init__.py"]
    assert [named(one) for one in doors if not all(isinstance(node, allowed) for node in tree_of(one).body)] == []


@pytest.mark.parametrize("module", DECISIONS, ids=lambda path: path.parent.name)
def test_a_decision_is_pure(module: Path) -> None:
    tree = tree_of(module)
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [type(node).__name__ for node in ast.walk(tree) if isinstance(node, waits)] == []
    assert {name for name in _imported(tree) if name.partition(".")[0] not in PURE | {"tenantry"}} == set()
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called & {"open", "print", "input", "exec", "eval", "__import__"} == set()
    clocks = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert clocks & {"now", "utcnow", "today", "uuid1", "uuid4"} == set()


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_every_kind_that_is_reconciled_has_the_same_rooms() -> None:
    for decision in DECISIONS:
        assert {"spec.py", "decide.py", "observe.py"} <= {one.name for one in decision.parent.iterdir()}, decision.parent.name


def test_the_source_root_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_no_file_tells_of_somebody_s_machine() -> None:
    assert [(name, found[0]) for name, text in texts() if (found := MACHINE_PATH.search(text))] == []


def test_no_file_names_a_package_registry() -> None:
    assert [(name, found[0]) for name, text in texts() if (found := REGISTRY.search(text))] == []


def test_the_layers_hold() -> None:
    linted = subprocess.run(
        ["lint-imports"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": str(Path(sys.executable).parent), "COLUMNS": "200"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert linted.returncode == 0, linted.stdout
