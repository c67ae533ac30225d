"""Tests are shaken: in an order that a seed repeats, beside processes that end with the one that began them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.shake import busy_cores
from tests.ci.shuffled import SEED

ROOT = Path(__file__).parents[3]
TESTS = "".join(f"def test_{number}() -> None: ...\n" for number in range(20))


def collected(folder: Path, seed: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "tests.ci.shuffled", "-p", "no:cacheprovider"]
    settings = {**os.environ, SEED: seed, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), str(folder)],
        env=settings,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_a_seed_gives_one_order_of_modules_and_of_their_tests(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    (tmp_path / "test_story.py").write_text(f"import pytest\npytestmark = pytest.mark.story\n{TESTS}")
    first, again, other = (collected(tmp_path, seed) for seed in ("1", "1", "2"))
    assert first == again != other
    assert sorted(first) == sorted(other)
    modules = [line.partition("::")[0] for line in first]
    assert modules != sorted(modules)
    assert all(modules[place : place + 20] == [modules[place]] * 20 for place in range(0, 180, 20)), "a module is made once"
    story = [line.partition("::")[2] for line in first if "test_story" in line]
    assert story == [f"test_{number}" for number in range(20)], "a story is told in its order"


def test_cores_are_busy_for_the_time_of_the_block() -> None:
    with busy_cores() as burners:
        assert len(burners) == os.cpu_count()
        assert [each.poll() for each in burners] == [None] * len(burners)
    assert all(each.returncode is not None for each in burners)


def test_a_burner_ends_with_the_process_that_began_it() -> None:
    with busy_cores() as burners:
        for each in burners:
            assert each.stdin is not None
            each.stdin.close()
        for each in burners:
            assert each.wait(60) == 0
