"""Tests wait for conditions by tests/support/waiting.py: its error says what did not come and what was there instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.parsed_code import parsed, text_of

TESTS = Path(__file__).parents[1]
APART = ("bench", "screens")
"""Folders of programs that measure and paint: their pauses are what they do."""
LOOPS = {
    "support/waiting.py": "the waits",
    "cluster/control_plane.py": "ends as soon as a process has ended, with what it said",
    "cluster/engines.py": "plays a controller, which tries again",
    "crash/faulty_feed.py": "plays a feed that is late",
    "crash/watched_platform.py": "writes again what others wrote meanwhile",
    "scenario/package_host.py": "plays a slow host",
    "scenario/packages/trust.py": "ends as soon as a process has ended, with what it said",
    "security/test_slow_clients.py": "sends slowly, and measures",
    "support/own_engine.py": "has no deadline of its own: the test's holds",
}
"""Files with another loop that pauses, each with the reason."""


def _pauses(loop: ast.While) -> Iterator[ast.Call]:
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    for call in calls:
        pauses = ast.unparse(call.func) in ("time.sleep", "asyncio.sleep")
        if pauses and not (isinstance(call.args[0], ast.Constant) and call.args[0].value == 0):
            yield call


def test_no_other_loop_of_a_test_asks_again_and_again() -> None:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if path.relative_to(TESTS).parts[0] not in APART and "sleep(" in text_of(path)
        for loop in ast.walk(parsed(path))
        if isinstance(loop, ast.While) and any(_pauses(loop))
    }
    assert found == set(LOOPS)
