"""`.ci/run` on a small copy of the tree: one run names every failure, and forgives only what passes three times."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COPIED = (
    ".ci/run",
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-build.lock",
    "tests/quarantine.toml",
)
FAILS = "def test_fails() -> None:\n    assert 1 + 1 == 3\n"
PASSES = "def test_passes() -> None:\n    assert 1 + 1 == 2\n"
ONCE = """from pathlib import Path

def test_once() -> None:
    seen = Path({place!r}) / {name!r}
    if not seen.exists():
        seen.touch()
        assert not "seen before"
"""
PLUGINS = "xdist.plugin,pytest_reportlog.plugin,pytest_timeout,pytest_asyncio.plugin"
"""Of the installed ones, those that the Makefile and pyproject.toml name: the others take seconds of each start."""
pytestmark = pytest.mark.slow


class Tree:
    """A clone with the tree's own machinery and tests of ours. Its tiers run in this environment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder / "clone", folder / "seen"
        self.seen.mkdir()
        for name in COPIED:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        shutil.copytree(ROOT / "tests" / "ci", self.folder / "tests" / "ci", ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / ".gitignore").write_text(".venv\n.ci/out\n__pycache__\n.pytest_cache\n")
        (self.folder / ".venv").symlink_to(sys.prefix)
        self._git("init", "-q", "-b", "main")
        self.commit("start")
        self._git("update-ref", "refs/remotes/origin/main", "HEAD")

    def test(self, path: str, text: str, mark: str = "") -> None:
        file = self.folder / "tests" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import pytest\npytestmark = pytest.mark.{mark}\n{text}" if mark else text)

    def once(self, path: str, mark: str = "") -> None:
        """A test that fails the first time only."""
        self.test(path, ONCE.format(place=str(self.seen), name=path.replace("/", "-")), mark)

    def commit(self, title: str) -> None:
        self._git("add", "-A")
        self._git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", title)

    def run(self, *tiers: str) -> tuple[int, list[str]]:
        """The exit code, and the last 60 lines."""
        given = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "PYTEST_"))}
        own = {
            **given,
            "REPORT": "",
            "TESTS": "tests",
            "WORKERS": "0",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": PLUGINS,
        }
        command = ["bash", ".ci/run", *tiers]
        done = subprocess.run(
            command, cwd=self.folder, env=own, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
        )
        return done.returncode, done.stdout.splitlines()[-60:]

    def ledger(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in (self.folder / ".ci" / "out" / "flakes.jsonl").read_text().splitlines()]

    def _git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, check=True)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def starting(lines: list[str], word: str) -> list[str]:
    return [line for line in lines if line.startswith(word)]


def test_one_run_names_the_failures_of_all_tiers(tree: Tree) -> None:
    for path, mark in (("test_fast.py", ""), ("test_slow.py", "slow"), ("test_cluster.py", "cluster")):
        tree.test(path, FAILS, mark)
    # What is marked cluster is slow as well.
    tree.test("test_cluster.py", FAILS.replace("def", "@pytest.mark.slow\ndef"), "cluster")
    code, lines = tree.run("test", "slow", "cluster")
    assert code == 1
    assert [line.split(" (")[0] for line in starting(lines, "FAILED")] == [
        f"FAILED {tier} tests/test_{file}.py::test_fails - assert (1 + 1) == 3".split(" (")[0]
        for tier, file in (("test", "fast"), ("slow", "slow"), ("cluster", "cluster"))
    ]
    assert lines[-1] == "0 passed, 3 failed, 0 skipped"


def test_a_test_that_fails_once_is_forgiven_and_stands_in_the_ledger(tree: Tree) -> None:
    tree.test("test_good.py", PASSES)
    tree.once("test_noisy.py")
    code, lines = tree.run("test")
    assert code == 0
    assert starting(lines, "FLAKED") != []
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"
    assert [(each["id"], each["kind"]) for each in tree.ledger()] == [("tests/test_noisy.py::test_once", "FLAKED")]


@pytest.mark.parametrize(("touched", "code"), [(False, 0), (True, 1)])
def test_a_fault_is_forgiven_where_the_change_did_not_touch_its_test(touched: bool, code: int, tree: Tree) -> None:
    tree.once("crash/test_kills.py")
    tree.commit("the test")
    if not touched:
        tree._git("update-ref", "refs/remotes/origin/main", "HEAD")
        tree.commit("something else")
    ended, lines = tree.run("test")
    assert ended == code
    assert len(starting(lines, "FAULT SEEN")) == 1


def test_three_flaked_tests_fail_the_run(tree: Tree) -> None:
    for number in range(3):
        tree.once(f"test_noisy_{number}.py")
    code, lines = tree.run("test")
    assert code == 1
    assert len(starting(lines, "FLAKED")) == 3
    assert lines[-1] == "0 passed, 3 failed, 0 skipped"


def test_a_tier_that_cannot_begin_fails_the_run_and_the_next_one_runs(tree: Tree) -> None:
    tree.test("test_broken.py", "import nothing_of_that_name\n")
    tree.test("test_slow.py", PASSES, "slow")
    code, lines = tree.run("test", "slow")
    assert code == 1
    assert "tests/test_broken.py" in "\n".join(starting(lines, "FAILED"))
    assert lines[-1].startswith("0 passed") or lines[-1].startswith("1 passed")
