"""A run of tests says at its end how much memory each of its processes took."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFTEST = """
import pytest
from tests.support.peak_memory import note_peak, pytest_terminal_summary, pytest_testnodedown

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    done = yield
    note_peak(item.config)
    return done
"""
TESTS = """
def test_large():
    assert len(b"x" * (300 << 20)) > 0

def test_small():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "names"), [(0, ["pytest"]), (2, ["gw0", "gw1", "pytest"])])
def test_the_output_ends_with_the_peak_of_each_process(workers: int, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    plugins = ["-p", "xdist", "-n", str(workers), "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(tmp_path), *plugins, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": ""},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = re.findall(r"^memory: at most (\d+) MiB: (.*)$", ran.stdout, re.MULTILINE)
    peaks = {name: int(mib) for name, mib in (each.split() for each in line[1].split(", "))}
    assert sorted(peaks) == names
    assert int(line[0]) == max(peaks.values()) > 300
    assert sum(peak > 300 for peak in peaks.values()) == 1
