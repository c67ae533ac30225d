"""The findings of `check` about Operations that do not end, and about what left a source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenantry.cli.commands.platform.check import _kept, _overdue
from tenantry.hosts.console.protocol import KeptReport, SourceReport

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


BROKEN = "a file of the source is broken: nothing is pruned until it can be read"
LEFT = "12 of the source's 17 objects left it at once"
KEPT: dict[str, tuple[SourceReport, list[tuple[str, bool]]]] = {
    "one that may go": (
        SourceReport("default", kept=(KeptReport("Region/eu", "holds data", approvable=True),)),
        [("Region/eu left the source and is kept: holds data; `tenantry approve default` deletes it", True)],
    ),
    "many for two reasons": (
        SourceReport(
            "default",
            kept=(
                *(KeptReport(f"Region/r{number}", LEFT, approvable=True) for number in range(4)),
                KeptReport("Region/us", "2 environments still use it", approvable=False),
            ),
        ),
        [
            (
                f"Region/r0, Region/r1, Region/r2 and 1 more left the source and are kept: {LEFT}; "
                "`tenantry approve default` deletes them",
                True,
            ),
            ("Region/us left the source and is kept: 2 environments still use it", True),
        ],
    ),
    "those of a broken file": (
        SourceReport("default", ("more.yaml:3: is no YAML",), (KeptReport("Region/eu", BROKEN, approvable=False),)),
        [(f"Region/eu left the source and is kept: {BROKEN}", False)],
    ),
}


@pytest.mark.parametrize(("report", "told"), KEPT.values(), ids=KEPT)
def test_what_left_a_source_has_a_line_for_each_reason(report: SourceReport, told: list[tuple[str, bool]]) -> None:
    assert [(each.text, each.wrong) for each in _kept(report)] == told
