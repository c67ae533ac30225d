"""The table of kinds is stated once, in kinds/registry.py: no other module lists kinds, and the chart agrees with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import CONTENTS, DECLARED, KINDS, TYPES
from tenantry.model.resource import Resource
from tests.docs import kind_lists
from tests.support.parsed_code import parsed, text_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "tenantry"
LISTS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
MOST = 2
"""Kinds that a module may name side by side."""


def _lists_of_kinds(module: Path) -> Iterator[str]:
    if sum(f'"{kind}"' in text_of(module) for kind in TYPES) <= MOST:
        return
    for node in ast.walk(parsed(module)):
        if isinstance(node, LISTS):
            elements = node.keys if isinstance(node, ast.Dict) else node.elts
            named = [each.value for each in elements if isinstance(each, ast.Constant) and each.value in TYPES]
            if len(named) > MOST:
                yield f"{module.relative_to(PACKAGE)}:{node.lineno}: {named}"


@pytest.mark.slow
def test_no_module_lists_kinds_by_name() -> None:
    assert [found for module in sorted(PACKAGE.rglob("*.py")) for found in _lists_of_kinds(module)] == []


def test_the_order_of_dependency_holds_every_kind_that_is_reconciled() -> None:
    assert set(DECLARED) == {*KINDS, "Namespace", "Secret"}
    assert DECLARED.index("Namespace") < DECLARED.index("Tenant") < DECLARED.index("Secret") < DECLARED.index("User")


def test_the_kinds_inside_an_environment_name_it() -> None:
    specs = {name: kind.type.model_fields["spec"].annotation for name, kind in KINDS.items()}
    assert tuple(name for name, spec in specs.items() if spec and "environment" in spec.model_fields) == CONTENTS


def test_every_export_goes_to_a_file_of_its_kind() -> None:
    files = [kind.EXPORTED_TO for kind in TYPES.values() if kind is not Operation]
    assert len({*files}) == len(files)


def _name_of(given: object) -> str:
    return given.name if isinstance(given, Path) else "fresh"


@pytest.mark.parametrize(("file", "fresh"), list(kind_lists.files()), ids=_name_of)
def test_lists_outside_of_python_hold_every_kind(file: Path, fresh: str) -> None:
    assert file.read_text("utf-8") == fresh, "run `make crds`"


def test_templates_name_no_kinds() -> None:
    """They include the lists of _kinds.tpl."""
    plurals = "|".join(sorted(kind.type.PLURAL for kind in KINDS.values()))
    written = re.compile(rf"\b(?:{plurals})/(?:status|finalizers)\b")
    templates = [each for each in sorted(kind_lists.CHART.parent.glob("*.*")) if each != kind_lists.CHART]
    named = {each.name: found for each in templates if (found := written.findall(each.read_text("utf-8")))}
    assert named == {}


def test_every_page_of_a_kind_names_its_short_name() -> None:
    """Short names are part of the contract with people who type them: a change must be seen on the kind's page."""
    kinds: list[type[Resource[Any, Any]]] = [*kind_lists.DECLARED, Operation]
    titles = {kind.KIND: kind_lists.page_of(kind).read_text("utf-8").split("\n")[0] for kind in kinds}
    assert titles == {kind.KIND: f"# {kind.KIND} (`{kind.SHORT}`)" for kind in kinds}
