"""Each place that opens a database is known, and those that open an engine's keep SQLite's limits there."""

from __future__ import annotations

import ast
from pathlib import Path

import tenantry
from tenantry.engine.sql.limits import bound
from tests.support.parsed_code import parsed, text_of

ROOT = Path(tenantry.__file__).parent
OPENERS = {"sqlite3.connect", "create_engine", "sa.create_engine"}
BOUND = {
    "engine/sql/engines.py",
    "adapters/local/archives.py",
    "adapters/moving/leaving.py",
    "engine/porting/chunks.py",
    "engine/porting/sources.py",
}
"""Modules that open the databases of engines, in which tenants' checks run."""
OWN = {
    "adapters/local/data_loss/losses.py",
    "adapters/local/data_loss/owning.py",
    "adapters/local/folders.py",
    "adapters/store/sqlite.py",
    "engine/porting/kept_places.py",
}
"""Modules that open the platform's own records: no expression of a tenant is in them."""


def _calls(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_each_place_that_opens_a_database_is_known() -> None:
    named = [path for path in ROOT.rglob("*.py") if any(f"{opener}(" in text_of(path) for opener in OPENERS)]
    found = {path: _calls(parsed(path)) for path in named}
    opening = {path.relative_to(ROOT).as_posix(): calls for path, calls in found.items() if calls & OPENERS}
    assert set(opening) == BOUND | OWN
    assert [name for name in BOUND if bound.__name__ not in opening[name]] == []
