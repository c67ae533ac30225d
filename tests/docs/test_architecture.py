"""The map of docs/architecture.md agrees with the code: its layers, its rooms, its verdicts and every path that it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

from tenantry.model.verdicts import Verdict

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "tenantry"
MAP = (ROOT / "docs" / "architecture.md").read_text("utf-8")
REST = "api/v1"
"""A path of URLs, not of the code."""


def section(title: str) -> str:
    return MAP.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def contract(name: str) -> list[str]:
    """The layers of a contract of import-linter, top first."""
    contracts: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["name"].startswith(name)]
    return [str(layer) for layer in layers]


def first_cells(text: str) -> list[set[str]]:
    """The code in the first cell of each row of its table."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [{*re.findall(r"`([^`]+)`", row)} for row in rows]


def test_its_layers_are_those_that_are_checked() -> None:
    checked = [{each.strip().removeprefix("tenantry.") for each in layer.split("|")} for layer in contract("Layers, top first")]
    drawn = first_cells(section("Layers"))
    assert {layer for row in drawn for layer in row} == {layer for row in checked for layer in row}
    rank = {layer: place for place, row in enumerate(checked) for layer in row}
    places = [max(rank[layer] for layer in row) for row in drawn]
    assert places == sorted(places), "a layer stands above one that it may import"


def test_its_rooms_of_the_command_line_are_those_that_are_checked() -> None:
    (told,) = re.findall(r"In `cli` it is ((?:`\w+`,?\s*)+)", section("Layers"))
    assert re.findall(r"`(\w+)`", told) == contract("Rooms of the command line")[2:]


def test_its_verdicts_are_those_of_the_code() -> None:
    assert sorted(name for row in first_cells(section("Verdicts")) for name in row) == sorted(
        verdict.__name__ for verdict in get_args(Verdict)
    )


def test_every_path_that_it_names_exists() -> None:
    """Also those of the diagram."""
    rooms = {each.name for each in PACKAGE.iterdir()}
    named = {*re.findall(r"(?:\b[a-z_]+/)+[a-z_0-9]+(?:\.py)?", MAP)} - {REST}
    ours = {path for path in named if path.partition("/")[0] in rooms}
    assert {path for path in ours if not any((PACKAGE / f"{path}{end}").exists() for end in ("", ".py"))} == set()
    assert {"runtime/cache", "runtime/reconcile/queue", "runtime/sources/write_back.py", "adapters/overlay"} <= ours
