"""The findings of `check` about Operations that do not end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenantry.cli.commands.platform.check import _overdue

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DEADLINE = timedelta(minutes=15)


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"status": "RUNNING", "startedOn": "2026-11-23T11:29:00Z"}, True),
        ({"status": "RUNNING", "startedOn": "2026-11-23T11:50:00Z"}, False),
        ({"status": "COMPLETED", "startedOn": "2026-11-23T01:00:00Z"}, False),
        ({}, True),
    ],
    ids=["runs for too long", "runs", "ended", "never began"],
)
def test_an_operation_that_is_overdue_is_named(status: dict[str, str], found: bool) -> None:
    operation = {
        "metadata": {"name": "op-1", "creationTimestamp": "2026-11-23T10:00:00Z"},
        "spec": {"action": "INSTALL_APP", "target": {"kind": "App", "name": "dev.crm"}},
        "status": status,
    }
    told = list(_overdue([operation], DEADLINE, NOW))
    assert [each.text.startswith("op-1: INSTALL_APP of App dev.crm is ") for each in told] == [True] * found
