"""The six states."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenantry
from tenantry.kinds.states import FOR_OPERATORS, FOR_PEOPLE, standing_of
from tests.support.parsed_code import parsed, text_of

SOURCE = Path(tenantry.__file__).parent


def document(reason: str, **condition: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "reason": reason, "message": "M", **condition}
    return {"kind": "Environment", "metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": [ready]}}


@pytest.mark.parametrize("reason", sorted(FOR_PEOPLE))
def test_an_object_that_waits_for_a_person_needs_one(reason: str) -> None:
    assert standing_of(document(reason)).state == "needs-you"


@pytest.mark.parametrize("reason", ["EngineStarting", "PackageNotReady", "ObjectsNotReady"])
def test_an_object_that_goes_on_by_itself_waits(reason: str) -> None:
    assert standing_of(document(reason)).state == "waiting"


def test_each_of_the_reasons_is_given_somewhere() -> None:
    rooms = (path for room in ("kinds", "adapters", "model") for path in (SOURCE / room).rglob("*.py"))
    source = "\n".join(path.read_text() for path in rooms)
    given = set(re.findall(r"\"([A-Z][A-Za-z]+)\"", source)) | {"EnvironmentMissing"}
    assert 'Waiting(f"Environment{seen.environment}"' in source
    assert sorted(FOR_PEOPLE - given) == []


def _stalled() -> Iterator[tuple[str, str]]:
    """The reason of each Stalled verdict that the code writes out, and who must act."""
    for path in (path for path in SOURCE.rglob("*.py") if "Stalled(" in text_of(path)):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Stalled" and node.args:
                given = [*node.args[2:3], *(each.value for each in node.keywords if each.arg == "by")]
                by = given[0].value if given and isinstance(given[0], ast.Constant) else "" if given else "User"
                if isinstance(node.args[0], ast.Constant):
                    yield str(node.args[0].value), str(by)


OF_NO_OBJECT = {"EngineSlow", "OperationFailed", "StateInUse", "StateUnreadable"}
"""Reasons of answers of the facade, and of commands."""


@pytest.mark.slow
def test_every_reason_for_operators_alone_is_known() -> None:
    found = list(_stalled())
    users = {reason for reason, by in found if by != "Operator"}
    assert {reason for reason, by in found if by == "Operator"} - users - OF_NO_OBJECT <= FOR_OPERATORS
    assert FOR_OPERATORS & users == set()
