"""The columns in which objects are listed."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.cli.arguments.kinds import kinds
from tenantry.model.resource import why

READY = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "all is well"}
SUSPENDED = {"type": "Suspended", "status": "True", "reason": "Suspended", "message": "it is not reconciled"}
CASES: dict[str, tuple[list[dict[str, Any]], str, str, tuple[str, str]]] = {
    "ready": ([READY], "", "all is well", ("Succeeded", "all is well")),
    "suspended, and ready before": ([READY, SUSPENDED], "True", "suspended; all is well", ("Suspended", "it is not reconciled")),
    "suspended from the first": ([SUSPENDED], "True", "suspended", ("Suspended", "it is not reconciled")),
    "not looked at yet": ([], "", "", ("Pending", "")),
}


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind.has_status], ids=lambda kind: kind.kind)
@pytest.mark.parametrize("case", CASES)
def test_a_suspended_object_of_any_kind_says_so_where_people_look(kind: Any, case: str) -> None:
    conditions, column, message, reason = CASES[case]
    document = {"kind": kind.kind, "metadata": {"name": "a"}, "status": {"conditions": conditions}}
    wide, narrow = dict(kind.table(True)), dict(kind.table(False))
    assert (wide["SUSPENDED"](document), narrow["MESSAGE"](document)) == (column, message)
    assert "SUSPENDED" not in narrow
    assert why(document)[1:] == reason
