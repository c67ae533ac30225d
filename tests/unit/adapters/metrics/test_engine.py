"""The numbers of engines: bounded labels, from zero on, and nothing wrong for Prometheus."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tenantry.adapters.metrics.engine import exposition_of
from tenantry.cli.processes.engine_metrics import held_below
from tenantry.model.measures import EngineHoldings, RequestMeasures
from tests.scenario.tools import lacking


def text(requests: int, *, process: bool = False) -> str:
    measures = RequestMeasures()
    for number in range(requests):
        measures.answered("read", 200 + number % 400, 0.001 * number)
    held = EngineHoldings({"database": 4096, "files": 7}, time.time() - 7200)
    return exposition_of(measures, lambda: held, None if process else CollectorRegistry())().decode()


def samples(told: str) -> dict[str, set[str]]:
    return {each.name: set(each.labels) for family in text_string_to_metric_families(told) for each in family.samples}


def test_labels_are_operations_and_classes_of_codes() -> None:
    found = samples(text(1))
    assert found["tenantry_engine_request_seconds_count"] == {"operation"}
    assert found["tenantry_engine_requests_total"] == {"operation", "code"}
    assert found["tenantry_engine_bytes"] == {"of"}


def test_there_are_as_many_series_without_a_request_as_with_each_status() -> None:
    def series(told: str) -> int:
        return sum(len(family.samples) for family in text_string_to_metric_families(told))

    assert series(text(0)) == series(text(2000)) < 120


def test_a_request_is_in_its_class_of_codes() -> None:
    told = text(301)  # 200 to 500
    for code, count in (("2xx", 100), ("3xx", 100), ("4xx", 100), ("5xx", 1)):
        assert f'tenantry_engine_requests_total{{code="{code}",operation="read"}} {count}.0' in told


def test_the_oldest_backup_is_shown_once_there_is_one() -> None:
    assert re.search(r"^tenantry_backup_age_seconds_max 720\d\.", text(0), re.MULTILINE)
    never = exposition_of(RequestMeasures(), EngineHoldings, CollectorRegistry())().decode()
    assert "tenantry_backup_age_seconds_max" not in never


def test_the_numbers_of_the_process_come_with_them_where_they_are_wanted() -> None:
    assert "process_resident_memory_bytes" in samples(text(1, process=True))
    assert "process_resident_memory_bytes" not in samples(text(1))


def test_prometheus_finds_nothing_wrong_with_names_and_units() -> None:
    if shutil.which("promtool") is None:
        lacking("promtool is not installed")
    told = text(3, process=True)
    checked = subprocess.run(["promtool", "check", "metrics"], input=told, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_bytes_and_the_oldest_backup_are_counted_over_all_engines(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two", "three")):
        (tmp_path / name / "packages").mkdir(parents=True)
        (tmp_path / name / "engine.db").write_bytes(b"x" * 100)
        (tmp_path / name / "packages" / "a.tapp").write_bytes(b"x" * 7)
        if number:
            (tmp_path / name / "last-backup").touch()
            os.utime(tmp_path / name / "last-backup", (1000.0 * number, 1000.0 * number))
    assert held_below(tmp_path) == EngineHoldings({"database": 300, "files": 21}, 1000.0)
    assert held_below(tmp_path / "gone") == EngineHoldings({"database": 0, "files": 0}, None)
