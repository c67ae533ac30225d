"""Every reason, HTTP status and exit code is explained, and the page is what the code says."""

from __future__ import annotations

import ast
import re

import pytest

from tenantry.reasons.platform import EXIT_CODES, STATUSES
from tenantry.reasons.table import REASONS, TOPICS
from tests.docs import reasons


@pytest.mark.slow
def test_the_page_is_current() -> None:
    assert reasons.PAGE.read_text("utf-8") == reasons.page(), "run `make crds`"


def test_every_reason_that_the_code_raises_is_explained() -> None:
    named = {each.reason for each in reasons.raised() if each.reason} | {
        name for names in reasons.COMPUTED.values() for name in names
    }
    assert sorted(named - {*REASONS}) == [], "explain it in operator/tenantry/reasons, then run `make crds`"


def test_every_explained_reason_is_raised() -> None:
    assert sorted({*REASONS} - {*reasons.ends_of()}) == []


def test_every_computed_reason_is_known() -> None:
    computed = {(each.module, each.expression) for each in reasons.raised() if each.reason is None}
    assert computed == {*reasons.COMPUTED}, "list the reasons of the call in tests/docs/reasons.py"


def test_a_reason_is_explained_once() -> None:
    assert sum(map(len, TOPICS.values())) == len(REASONS)


def _numbers(pattern: str) -> set[int]:
    return {int(found) for path in reasons.CODE.rglob("*.py") for found in re.findall(pattern, path.read_text("utf-8"))}


SERVERS = ("api", "console", "engine", "rest")
"""Packages that answer requests."""
OTHERS = {512, 0o700}
"""Numbers of these packages that are no statuses: a length, and a mode of files."""


def _statuses() -> set[int]:
    """Return each number of the servers' code that can be the status of an error: of a route, a refusal or an answer."""
    trees = (ast.parse(path.read_text("utf-8")) for server in SERVERS for path in (reasons.CODE / server).rglob("*.py"))
    numbers = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {each for each in numbers if type(each) is int and 400 <= each < 600} - OTHERS


@pytest.mark.slow
def test_every_status_of_an_error_is_explained() -> None:
    assert sorted(_statuses() - {*STATUSES}) == [], "explain it in operator/tenantry/reasons/platform.py, then run `make crds`"


@pytest.mark.slow
def test_every_explained_status_is_answered() -> None:
    assert sorted({*STATUSES} - _statuses()) == []


def test_every_exit_code_is_explained() -> None:
    failing = ast.parse((reasons.CODE / "cli/output/failing.py").read_text("utf-8"))
    named = {
        node.value.value
        for node in failing.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int)
    }
    assert named == {1, 2}
    # 0 is written nowhere: it is how a program ends.
    assert {0} | named | _numbers(r"(?:sys\.exit|typer\.Exit)\((\d+)\)") == {*EXIT_CODES}


@pytest.mark.parametrize(
    "entry", [*REASONS.values(), *STATUSES.values(), *EXIT_CODES.values()], ids=lambda entry: entry.meaning[:30]
)
def test_an_explanation_is_a_sentence_and_an_action(entry: tuple[str, str]) -> None:
    meaning, action = entry
    assert meaning.endswith(".")
    assert not action.endswith((".", "!"))
