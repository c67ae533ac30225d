"""Alerts of the chart, raised by real faults of a real platform that a real Prometheus scrapes, and cleared with them.

Time is compressed: `for`, the windows of rates, and thresholds that are ages. The faults, the processes and the numbers are
real. tests/unit/chart/test_alerts.py plays the alerts as they are, over days.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml

from tests.scenario.cli import until
from tests.scenario.health.alert_faults import FAULTS
from tests.scenario.health.alert_world import watched
from tests.support.prometheus import ALERTS, compressed

pytestmark = pytest.mark.slow
ELSEWHERE = {"TenantryNoLeader", "TenantryOperationOverdue"}
"""Alerts of a cluster: tests/cluster/test_alerts.py raises them by real faults."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_real_fault_raises_its_alerts_and_its_end_clears_them(fault: str, tmp_path: Path) -> None:
    alerts, breaks, resync, volume = FAULTS[fault]
    with watched(tmp_path, resync, volume=volume) as world:
        begun = time.monotonic()
        mend = breaks(world)
        # A burst ends by itself, and its alerts need not fire at one moment.
        fired: set[str] = set()

        def all_fired() -> bool:
            fired.update(world.firing())
            return alerts <= fired

        until(all_fired)
        raised = time.monotonic()
        mend()
        until(lambda: world.prometheus.cleared(*alerts))
        print(f"{fault}: raised after {raised - begun:.0f} s, cleared after {time.monotonic() - raised:.0f} s")


def test_each_alert_has_a_real_fault() -> None:
    names = {rule["alert"] for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}
    real = frozenset().union(*(each.alerts for each in FAULTS.values()))
    assert real | ELSEWHERE == names
    assert not re.search(r"\d+m\]|\d+h\]", yaml.safe_dump(compressed()))
