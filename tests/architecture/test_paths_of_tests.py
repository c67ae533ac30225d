"""Files that a module of tests names by its own place exist: a module that moves takes its paths along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.parsed_code import text_of

TESTS = Path(__file__).parents[1]
PLACE = re.compile(r'Path\(__file__\)\.(?:parent|parents\[(?P<up>\d+)\])(?P<parts>(?: / "[^"]+")+)')


def named_by(module: Path) -> Iterator[Path]:
    """Yield the files and folders that a module names by its own place."""
    for found in PLACE.finditer(text_of(module)):
        yield module.parents[int(found["up"] or 0)].joinpath(*re.findall(r'"([^"]+)"', found["parts"]))


def test_every_path_that_a_module_of_tests_names_exists() -> None:
    named = [path for module in sorted(TESTS.rglob("*.py")) for path in named_by(module)]
    assert len(named) > 20
    assert [str(path.relative_to(TESTS.parent)) for path in named if not path.exists()] == []
