"""`up` as a process, ended by SIGKILL while it creates, edits and deletes fifty environments; then started again.

The moments are spread over the writes of a chapter: the process is killed when its store has come to a version.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.store.schema import read_version
from tenantry.adapters.store.state_files import DATABASE_FILE
from tests.campaigns.scale import at_full
from tests.crash import story
from tests.crash.campaign import copy_of, run
from tests.scenario.cli import PATIENCE_S, begun, called, until
from tests.support.turns import turn

KILLS = 20
"""Moments of each chapter."""
STEP = at_full(1, otherwise=4)
"""The slow tier kills at every fourth of them, for another commit at others; the campaign kills at every one."""
TURN = turn("kills of up", STEP)
ENVIRONMENTS = 50
WITH_APP = range(5)
RESTS_S = 3.0


@dataclass(frozen=True)
class Chapter:
    """One chapter without a kill: the state before it, its declarations, its end, and the versions of the store in between."""

    before: Path
    source: Path
    end: dict[str, Any]
    first: int
    last: int

    def version(self, moment: int) -> int:
        """The version at which to kill."""
        return self.first + (self.last - self.first) * moment // KILLS


@pytest.fixture(scope="session")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Chapter]:
    root = tmp_path_factory.mktemp("reference")
    state = root / "state"
    state.mkdir()
    told = {}
    for name in story.CHAPTERS:
        before = copy_of(state, root / f"before-{name}")
        source = _write(root / name, name)
        first = _version(state)
        end = _portrait(state, source, approve=name == "delete")
        told[name] = Chapter(before, source, end, first, _version(state))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS // STEP))
@pytest.mark.parametrize("name", story.CHAPTERS)
def test_a_killed_up_is_started_again_and_comes_to_the_same_end(
    name: str, number: int, chapters: dict[str, Chapter], tmp_path: Path
) -> None:
    chapter = chapters[name]
    approve = name == "delete"
    state = copy_of(chapter.before, tmp_path / "state")
    _killed(state, chapter.source, chapter.version(number * STEP + TURN), approve=approve)
    if at_full(True, otherwise=number == 0):  # the portrait starts the platform again as well
        _once(state, chapter.source, finishes=not approve)
    end = _portrait(state, chapter.source, approve=approve)
    for part, expected in chapter.end.items():
        assert end[part] == expected, part


@pytest.mark.slow
def test_fifty_environments_are_created_by_fifty_operations(chapters: dict[str, Chapter], tmp_path: Path) -> None:
    chapter = chapters["create"]
    state = tmp_path / "state"
    for moment in range(1, KILLS, 4):
        _killed(state, chapter.source, chapter.version(moment))
    _once(state, chapter.source)
    end = _portrait(state, chapter.source)
    created = [(about, count) for about, count in end["operations"] if about[0] == "CREATE_ENVIRONMENT"]
    assert created == [(("CREATE_ENVIRONMENT", "", f"e{n:02}", "COMPLETED", "SUCCESS"), 1) for n in range(ENVIRONMENTS)]
    assert {shape[2] for about, shape in end["objects"].items() if about.startswith("Environment/")} == {("True", "Succeeded")}


def _write(folder: Path, chapter: str) -> Path:
    """The declarations of a chapter: an edit moves all environments to other slugs, a deletion leaves the app's packages."""
    story.write(folder, chapter)
    documents = [story.object_("Region", "eu", "{}"), story.object_("Tenant", "acme", "{displayName: Acme}")]
    documents += [story.package(version) for version in ("1.0.0", "1.1.0")]
    if chapter != "delete":
        edited = chapter == "edit"
        for number in range(ENVIRONMENTS):
            documents += story.environment("acme", f"e{number:02}", f"{'f' if edited else 'e'}{number:02}")
        documents += [story.app(f"e{number:02}", "1.1.0" if edited else "1.0.0") for number in WITH_APP]
    (folder / "platform.yaml").write_text("---".join(documents))
    return folder


def _up(state: Path, source: Path, *options: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    listen = {"TENANTRY_LISTEN": "127.0.0.1:0"}
    return begun("up", source, "--state", state, *options, cwd=Path.cwd(), variables=listen, **pipes)


def _once(state: Path, source: Path, *, finishes: bool = True) -> None:
    """Runs to the end. finishes: nothing waits for an approval."""
    with _up(state, source, "--once") as process:
        _, told = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0 or not finishes, told


def _killed(state: Path, source: Path, version: int, *, approve: bool = False) -> None:
    """Runs until the store has come there; SIGKILL. approve: what is kept because it holds data goes after all."""
    come = Come(state, version)
    with _up(state, source) as process:
        try:
            if approve:
                assert any("http://" in line for line in process.stdout or ())
                assert called("approve", "--state", state, cwd=state).returncode == 0
            until(lambda: process.poll() is not None or come())
        finally:
            process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL, process.stderr and process.stderr.read()


class Come:
    """True once the store has come to a version, or to rest before it. The objects that wait differ from run to run."""

    def __init__(self, state: Path, version: int) -> None:
        self._state, self._version = state, version
        self._first = self._seen = _version(state)
        self._since = time.monotonic()

    def __call__(self) -> bool:
        now = _version(self._state)
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        rests = self._first < now and time.monotonic() - self._since > RESTS_S
        return now >= self._version or rests


def _version(state: Path) -> int:
    """The store's version, 0 before there is one."""
    try:
        with closing(sqlite3.connect(f"file:{state / DATABASE_FILE}?mode=ro", uri=True)) as connection:
            return read_version(connection.cursor())
    except (sqlite3.OperationalError, TypeError):
        return 0


def _portrait(state: Path, source: Path, *, approve: bool = False) -> dict[str, Any]:
    portrait = asyncio.run(run(state, source, approve=approve))
    assert portrait is not None
    return portrait
