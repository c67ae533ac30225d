"""The pytest plugin of a campaign's row: it selects the row's tests and writes what they counted to a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.campaigns.rows import ROWS, Part
from tests.campaigns.tried import PROPERTY


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign-row", help="the row of tests/campaigns/rows.py to run")
    parser.addoption("--campaign-report", help="the JSON file to write")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    parts = ROWS[config.getoption("--campaign-row")].parts
    kept = [each for each in items if any(part.holds(each.nodeid) for part in parts)]
    config.hook.pytest_deselected(items=[each for each in items if each not in kept])
    items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Counting(config))


class _Counting:
    """Adds up the reports of all workers, by part of the row."""

    def __init__(self, config: pytest.Config) -> None:
        self._parts = ROWS[config.getoption("--campaign-row")].parts
        self._file = Path(config.getoption("--campaign-report"))
        self._counted = [{"count": 0, "passed": 0, "failed": [], "skipped": []} for _ in self._parts]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for part, counted in zip(self._parts, self._counted, strict=True):
            if part.holds(report.nodeid):
                _add(part, counted, report)

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._counted))


def _add(part: Part, counted: dict, report: pytest.TestReport) -> None:  # type: ignore[type-arg]
    if report.failed and report.nodeid not in counted["failed"]:
        counted["failed"].append(report.nodeid)
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        counted["skipped"].append(f"{report.nodeid}: {reason}")
    if report.when != "call":
        return
    counted["passed"] += report.passed
    if part.counted == "tries":
        counted["count"] += sum(int(str(value)) for name, value in report.user_properties if name == PROPERTY)
    else:
        counted["count"] += report.passed
