"""No module imports itself by way of others, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.parsed_code import parsed

SOURCE_ROOT = Path(__file__).parents[2] / "operator"


def modules(root: Path) -> dict[str, Path]:
    """Return the files of the modules below a source root, by the name under which they are imported."""
    paths = {path.relative_to(root).with_suffix("").parts: path for path in root.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for parts, path in paths.items()}


def imported(module: ast.Module, known: frozenset[str]) -> Iterator[str]:
    """Yield the known modules that this one imports anywhere, also for types only."""
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in known)
            case ast.ImportFrom(module=str(base), names=names, level=0):
                whole = {f"{base}.{alias.name}" for alias in names} & known
                yield from whole or ({base} & known)


def cycle_in(root: Path) -> list[str]:
    """Return one import cycle, or nothing."""
    found = modules(root)
    known = frozenset(found)
    try:
        TopologicalSorter({name: set(imported(parsed(path), known)) - {name} for name, path in found.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow
def test_modules_do_not_import_each_other() -> None:
    assert cycle_in(SOURCE_ROOT) == []


@pytest.mark.parametrize(
    "late", ["import house.one", "from house import one", "from house.one import A", "def lazy():\n    from house.one import A"]
)
def test_a_cycle_is_found(tmp_path: Path, late: str) -> None:
    (tmp_path / "house").mkdir()
    for name, text in {"__init__": "", "one": "from house.two import B", "two": late}.items():
        (tmp_path / "house" / f"{name}.py").write_text(text)
    assert set(cycle_in(tmp_path)) == {"house.one", "house.two"}
