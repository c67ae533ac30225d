"""Alerts of the chart: silent over a healthy day, each raised by its fault alone and cleared with it, each with a runbook."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.scenario.tools import lacking

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "charts" / "tenantry" / "files" / "alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
NAMES = [rule["alert"] for rule in RULES]
SECTIONS = re.findall(r"^## (Tenantry\w+)$", (ROOT / "docs" / "healthy.md").read_text(), re.MULTILINE)
OPERATOR, API = 'up{job="tenantry-operator"}', 'up{job="tenantry-api"}'
LEADER = 'leader_election_master_status{job="tenantry-operator",name="tenantry-operator"}'
WAITED = "workqueue_queue_duration_seconds"
SETTLED = "tenantry_declared_to_ready_seconds"
GETS = "tenantry_request_seconds"
VOLUME = 'kubelet_volume_stats_{0}_bytes{{namespace="env-1",persistentvolumeclaim="engine"}}'
HEALTHY = {
    OPERATOR: "1x1500",
    API: "1x1500",
    LEADER: "1x1500",
    f'{WAITED}_bucket{{job="tenantry-operator",le="30.0"}}': "0+60x1500",
    f'{WAITED}_bucket{{job="tenantry-operator",le="60.0"}}': "0+60x1500",
    f'{WAITED}_bucket{{job="tenantry-operator",le="+Inf"}}': "0+60x1500",
    f'{SETTLED}_bucket{{kind="Environment",le="300.0"}}': "0+100x1500",
    f'{SETTLED}_count{{kind="Environment"}}': "0+101x1500",
    'tenantry_ready{kind="Environment",state="ready",by=""}': "100x1500",
    'tenantry_ready{kind="Environment",state="needs-you",by="User"}': "2x1500",
    'tenantry_ready{kind="Source",state="working",by=""}': "1x1500",
    'tenantry_operation_open_seconds_max{action="CREATE_ENVIRONMENT"}': "40x1500",
    "tenantry_deletion_seconds_max": "60x1500",
    "tenantry_source_held_back": "0x1500",
    'tenantry_engines_not_running{status="DELETING"}': "1x1500",
    'tenantry_hot_objects{kind="Environment"}': "0x1500",
    "tenantry_backup_age_seconds_max": "86400x1500",
    VOLUME.format("available"): "50x1500",
    VOLUME.format("capacity"): "100x1500",
    'tenantry_requests_total{code="200"}': "0+100x1500",
    'tenantry_requests_total{code="500"}': "0+1x1500",
    f'{GETS}_bucket{{method="GET",le="1.0"}}': "0+100x1500",
    f'{GETS}_bucket{{method="GET",le="2.5"}}': "0+100x1500",
    f'{GETS}_bucket{{method="GET",le="+Inf"}}': "0+100x1500",
}
"""A day, a sample each minute."""


class Fault(NamedTuple):
    """series: in place of the healthy ones; the fault lasts from the start. minutes: until the alert fires at the latest.

    over: the same series until it is mended at minute 400, where they end by themselves.
    """

    series: dict[str, str]
    minutes: int


FAULTS = {
    "TenantryOperatorDown": Fault({OPERATOR: "0x400 1x600"}, 6),
    "TenantryNoLeader": Fault({LEADER: "0x400 1x600"}, 6),
    "TenantryQueueBehind": Fault({f'{WAITED}_bucket{{job="tenantry-operator",le="30.0"}}': "0+30x400 12000+60x600"}, 30),
    "TenantryDeclaredToReadyFast": Fault({f'{SETTLED}_bucket{{kind="Environment",le="300.0"}}': "0+50x400 20000+101x600"}, 10),
    "TenantryDeclaredToReadySlow": Fault({f'{SETTLED}_bucket{{kind="Environment",le="300.0"}}': "0+90x400 36000+101x600"}, 30),
    "TenantryObjectsStalledPlatform": Fault(
        {'tenantry_ready{kind="Environment",state="needs-you",by="Operator"}': "1x400 0x600"}, 11
    ),
    "TenantryOperationOverdue": Fault({'tenantry_operation_open_seconds_max{action="CREATE_ENVIRONMENT"}': "0+60x400 5x600"}, 40),
    "TenantryDeletionStuck": Fault({"tenantry_deletion_seconds_max": "0+60x400 0x600"}, 70),
    "TenantrySourceBroken": Fault({'tenantry_ready{kind="Source",state="waiting",by=""}': "1x400 0x600"}, 16),
    "TenantryPruneHeldBack": Fault({"tenantry_source_held_back": "3x400 0x600"}, 61),
    "TenantryEngineDown": Fault({'tenantry_engines_not_running{status="FAILED"}': "1x400 0x600"}, 16),
    "TenantryBackupMissed": Fault({"tenantry_backup_age_seconds_max": "80000+60x400 60x600"}, 300),
    "TenantryObjectsHot": Fault({'tenantry_hot_objects{kind="Environment"}': "2x400 0x600"}, 6),
    "TenantryVolumeFull": Fault({VOLUME.format("available"): "5x400 50x600"}, 11),
    "TenantryApiDown": Fault({API: "0x400 1x600"}, 6),
    "TenantryApiFailing": Fault({'tenantry_requests_total{code="500"}': "0+20x400 8000+1x600"}, 16),
    "TenantryApiSlow": Fault({f'{GETS}_bucket{{method="GET",le="1.0"}}': "0+90x400 36000+100x600"}, 21),
}
CLEARED = 800
"""Minutes: six hours and more after the end of each fault, so that the longest window has passed."""


def checked(folder: Path, name: str, series: dict[str, str], times: dict[int, list[str]]) -> None:
    """Evaluate all rules over the series. times: the alerts that fire at each minute."""
    if shutil.which("promtool") is None:
        lacking("promtool is not installed")
    by_name = {rule["alert"]: rule for rule in RULES}
    expected = [
        {
            "eval_time": f"{minute}m",
            "alertname": alert,
            "exp_alerts": [_alert(by_name[alert], series)] if alert in firing else [],
        }
        for minute, firing in times.items()
        for alert in NAMES
    ]
    inputs = [{"series": each, "values": values} for each, values in series.items()]
    case = {"name": name, "interval": "1m", "input_series": inputs, "alert_rule_test": expected}
    (folder / "case.yaml").write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", str(folder / "case.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _alert(rule: dict[str, Any], series: dict[str, str]) -> dict[str, Any]:
    labels = dict(rule["labels"])
    if rule["alert"] == "TenantryApiSlow":
        labels["method"] = "GET"
    if rule["alert"] == "TenantryObjectsHot":
        labels["kind"] = "Environment"
    annotations = {name: text.replace("{{ $labels.kind }}", "Environment") for name, text in rule["annotations"].items()}
    return {"exp_labels": labels, "exp_annotations": annotations}


@pytest.mark.slow
def test_no_alert_fires_over_a_healthy_day(tmp_path: Path) -> None:
    checked(tmp_path, "a healthy day", HEALTHY, {minute: [] for minute in range(0, 1441, 30)})


@pytest.mark.slow
@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_fires_with_its_fault_alone_and_clears_with_it(alert: str, tmp_path: Path) -> None:
    fault = FAULTS[alert]
    beside = ["TenantryDeclaredToReadySlow"] if alert == "TenantryDeclaredToReadyFast" and fault.minutes >= 15 else []
    checked(tmp_path, alert, HEALTHY | fault.series, {fault.minutes: [alert, *beside], CLEARED: []})


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_each_alert_links_its_section_of_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["annotations"]["runbook_url"] == f"RUNBOOKS#{rule['alert'].lower()}"


def test_each_alert_has_a_section_in_the_runbook_and_each_section_an_alert() -> None:
    assert sorted(SECTIONS) == sorted(NAMES)
