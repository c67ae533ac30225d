"""A fixture of a session is imported by tests/conftest.py alone: pytest makes one for each module that imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.parsed_code import parsed, text_of

TESTS = Path(__file__).parents[1]


def _of_a_session(module: ast.Module) -> Iterator[str]:
    for function in (node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        decorators = map(ast.unparse, function.decorator_list)
        if any("fixture" in each and "scope='session'" in each for each in decorators):
            yield function.name


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in (node for node in module.body if isinstance(node, ast.ImportFrom)):
        yield from ((node.module or "", each.name) for each in node.names)


def test_each_session_has_one_of_them() -> None:
    modules = sorted(TESTS.rglob("*.py"))
    made = {
        (f"tests.{path.relative_to(TESTS).with_suffix('').as_posix().replace('/', '.')}", name)
        for path in modules
        if '"session"' in text_of(path)  # to parse all modules takes 6 s
        for name in _of_a_session(parsed(path))
    }
    assert ("tests.scenario.postgres", "server") in made
    elsewhere = {
        path.relative_to(TESTS).as_posix(): sorted(found)
        for path in modules
        if path.name != "conftest.py" and any(module in text_of(path) and name in text_of(path) for module, name in made)
        if (found := made & set(_imported(parsed(path))))
    }
    assert elsewhere == {}
