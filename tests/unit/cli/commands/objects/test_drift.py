"""The objects that `tenantry drift` lists."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.cli.commands.objects.drift import Difference, left_alone, not_corrected

SINCE = "2026-03-01T12:00:00Z"


def operation(action: str = "CORRECT_DRIFT", status: str = "RUNNING", result: str = "PENDING") -> dict[str, Any]:
    target = {"kind": "App", "namespace": "tenant-acme", "name": "dev.crm"}
    return {
        "metadata": {"name": "op-1"},
        "spec": {"action": action, "target": target, "steps": ["crm: install 1.0.0"]},
        "status": {"status": status, "result": result, "startedOn": SINCE},
    }


def app(last: str = "", **condition: str) -> dict[str, Any]:
    told = {"conditions": [condition] if condition else [], "lastOperation": {"id": last} if last else None}
    return {"kind": "App", "metadata": {"name": "dev.crm", "namespace": "tenant-acme"}, "status": told}


@pytest.mark.parametrize(
    ("one", "last", "listed"),
    [
        pytest.param(operation(), "", True, id="a correction that goes on"),
        pytest.param(operation(status="QUEUED"), "", True, id="one that has not begun"),
        pytest.param(
            operation(status="COMPLETED", result="FAILURE"), "op-1", True, id="one that failed, and nothing came after it"
        ),
        pytest.param(operation(status="COMPLETED", result="CANCELLED"), "op-1", True, id="one that a person cancelled"),
        pytest.param(operation(status="COMPLETED", result="FAILURE"), "op-2", False, id="not one that another followed"),
        pytest.param(operation(status="COMPLETED", result="SUCCESS"), "op-1", False, id="not one that is done"),
        pytest.param(operation(action="INSTALL_APP"), "op-1", False, id="not what was declared"),
    ],
)
def test_under_correct_it_lists(one: dict[str, Any], last: str, listed: bool) -> None:
    expected = [Difference("App/tenant-acme/dev.crm", "crm: install 1.0.0", "Correct", SINCE)]
    assert list(not_corrected([one], [app(last)])) == (expected if listed else [])


def test_under_warn_it_lists_what_carries_the_condition() -> None:
    told = {"type": "Drifted", "message": "installed is no version", "lastTransitionTime": SINCE}
    expected = Difference("App/tenant-acme/dev.crm", "installed is no version", "Warn", SINCE)
    assert list(left_alone([app(), app(**told, status="False"), app(**told, status="True")])) == [expected]
    assert list(left_alone([{"kind": "App", "metadata": {"name": "new"}}])) == []
