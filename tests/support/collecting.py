"""Collect only modules that may have tests of the tier, without a garbage collector."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Collection, Generator, Iterable
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).parents[2]
MARKED = pytest.StashKey[dict[Path, set[str]]]()
"""The marks of tests and of their rows, by module, before any is deselected."""
_MARK = re.compile(r"\bmark\.([a-z]+)")
_IMPORT = re.compile(r"^from (tests(?:\.\w+)*) import (\([^)]*\)|.*)$", re.MULTILINE)
_OF_A_MODULE = re.compile(r"^pytestmark\b.* = (.*)$", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules without a test of the tier aside. Each worker would import them."""
    expression = config.option.markexpr
    if not expression or not collection_path.match("test_*.py"):
        return None
    return None if may_hold(collection_path, expression) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Stop the garbage collector until all is collected. What is made here stays, and would be visited again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        # Those of other tiers were collected in vain. Tests do not pay for what stays, either.
        gc.collect()
        gc.freeze()
        if collects:
            gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what marks there are, for the test that compares them with the text of the modules."""
    marked = config.stash[MARKED] = {}
    for item in items:
        marked.setdefault(item.path, set()).update(mark.name for mark in item.own_markers)


def may_hold(module: Path, expression: str) -> bool:
    """Say if a module may have a test that `-m expression` chooses. A module is excluded only if its text leaves no doubt."""
    chosen = Expression.compile(expression)
    text = module.read_text("utf-8")
    certain = {name for line in _OF_A_MODULE.findall(text) for name in _marks_of(line)}
    possible = (mentioned(module) & chosen.idents()) - certain
    subsets = chain.from_iterable(combinations(sorted(possible), count) for count in range(len(possible) + 1))
    return any(_chooses(chosen, certain.union(subset)) for subset in subsets)


def _chooses(chosen: Expression, marks: Collection[str]) -> bool:
    return chosen.evaluate(lambda name, /, **_: name in marks)


def _marks_of(line: str) -> Iterable[str]:
    """Marks that a whole module has for sure: those of one line without a condition."""
    try:
        value = ast.parse(line, mode="eval").body
    except SyntaxError:
        return
    for each in value.elts if isinstance(value, ast.List) else [value]:
        each = each.func if isinstance(each, ast.Call) else each
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "pytest.mark":
            yield each.attr


@cache
def mentioned(module: Path) -> frozenset[str]:
    """Return the marks that the module or a module of tests that it imports, at any distance, mentions in its text."""
    return frozenset().union(*(_marks(each) for each in _closure(module)))


@cache
def _marks(module: Path) -> frozenset[str]:
    return frozenset(_MARK.findall(module.read_text("utf-8")))


def _closure(module: Path) -> set[Path]:
    seen: set[Path] = set()
    ahead = [module]
    while ahead:
        at = ahead.pop()
        if at not in seen:
            seen.add(at)
            ahead += _imported(at)
    return seen


@cache
def _imported(module: Path) -> tuple[Path, ...]:
    found = []
    for package, names in _IMPORT.findall(module.read_text("utf-8")):
        place = ROOT.joinpath(*package.split("."))
        found += [place.with_suffix(".py"), *(place / f"{name}.py" for name in re.findall(r"\w+", names))]
    return tuple(path for path in found if path.is_file())
