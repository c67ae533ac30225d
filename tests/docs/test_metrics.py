"""docs/metrics.md names each metric that a process shows, and no other; alerts and dashboards ask for these alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tenantry.adapters.metrics.cluster import ClientCollector, LeaderCollector
from tenantry.adapters.metrics.engine import EngineCollector
from tenantry.adapters.metrics.registry import registry_of
from tenantry.kinds.states import STATES
from tenantry.model.measures import EngineHoldings, RequestMeasures
from tests.docs.dashboards import BOARDS
from tests.scenario.rest_world import numbers, world_in

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
RULES = yaml.safe_load((ROOT / "charts" / "tenantry" / "files" / "alerts.yaml").read_text())["groups"][0]["rules"]
OTHERS = {"up", "kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes", "tenantry_resource_info"}
"""Metrics of Prometheus, of kubelets and of kube-state-metrics."""
OF_A_SAMPLE = re.compile(r"_(bucket|count|sum|total|created)$")
NAME = re.compile(r"\b(?:tenantry|controller_runtime|workqueue|rest_client|leader_election|process|kubelet)_\w+")


@pytest.fixture
async def shown(tmp_path: Path) -> dict[str, set[str]]:
    """The labels of each metric, without what Prometheus adds to the names of samples."""
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        text = numbers(world)
    requests = RequestMeasures()
    held = EngineHoldings({"database": 1}, 1.0)
    leader = LeaderCollector("tenantry-operator", lambda: frozenset({0}), lambda: 1)
    cluster = ClientCollector(Counter({("GET", "200"): 1})), leader
    text += generate_latest(registry_of((*cluster, EngineCollector(requests, lambda: held)))).decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        labels = found.setdefault(OF_A_SAMPLE.sub("", family.name), set())
        labels.update(*(sample.labels for sample in family.samples))
    return found


def documented() -> Iterator[tuple[str, set[str] | None]]:
    """Yield each metric of the page with its labels; None where the row does not name them."""
    for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE):
        for name, labels in re.findall(r"`(\w+)(?:\{([\w,]*)\})?`", row):
            yield OF_A_SAMPLE.sub("", name), set(labels.split(",")) if labels else None


async def test_the_page_names_each_metric_with_its_labels_and_no_other(shown: dict[str, set[str]]) -> None:
    named = dict(documented())
    ours = {name: labels for name, labels in shown.items() if not name.startswith(("process_", "python_"))}
    assert named.keys() == ours.keys()
    wrong = {name: ours[name] for name, labels in named.items() if labels and labels != ours[name] - {"le"}}
    assert wrong == {}


async def test_alerts_and_dashboards_ask_for_metrics_that_are_shown(shown: dict[str, set[str]]) -> None:
    expressions = [rule["expr"] for rule in RULES] + [panel.expression for board in BOARDS.values() for panel in board.panels]
    asked = {OF_A_SAMPLE.sub("", name) for each in expressions for name in NAME.findall(each)}
    assert asked - OTHERS <= shown.keys()
    states = {state for each in expressions for found in re.findall(r'state=~?"([\w|-]+)"', each) for state in found.split("|")}
    assert states <= set(STATES)
