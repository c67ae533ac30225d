"""The fleet for Prometheus. Labels are kinds, states, actions and results: no series belongs to an object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tenantry.hosts.left_engines import LeftEngines
from tenantry.kinds.operation.spec import Action
from tenantry.kinds.states import NEEDS_YOU, STATES
from tenantry.runtime.fleet import Fleet

NOT_RUNNING = ("DELETING", "FAILED", "PENDING")


class FleetCollector(Collector):
    """Reads the numbers at each scrape."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        fleet = self._fleet
        ready = GaugeMetricFamily(
            "tenantry_ready", "Objects by state, and by who must act on them.", labels=["kind", "state", "by"]
        )
        for (kind, state, by), count in sorted(_with_empty_states(fleet.states()).items()):
            ready.add_metric([kind, state, by], count)
        yield ready
        opened = GaugeMetricFamily("tenantry_operations_open", "Operations that have not ended.", labels=["action"])
        oldest = GaugeMetricFamily("tenantry_operation_open_seconds_max", "Age of the oldest of them.", labels=["action"])
        for action, (count, age) in (dict.fromkeys(get_args(Action), (0, 0.0)) | fleet.open_operations()).items():
            opened.add_metric([action], count)
            oldest.add_metric([action], age)
        yield from (opened, oldest)
        ended = HistogramMetricFamily(
            "tenantry_operation_seconds", "Duration of Operations that ended.", labels=["action", "result"]
        )
        for labels, times in sorted(fleet.operations.items()):
            ended.add_metric(list(labels), times.buckets(), times.sum)
        settled = HistogramMetricFamily(
            "tenantry_declared_to_ready_seconds", "Time from a declaration to Ready.", labels=["kind"]
        )
        for kind, times in sorted(fleet.settled.items()):
            settled.add_metric([kind], times.buckets(), times.sum)
        yield from (ended, settled)
        drift = GaugeMetricFamily("tenantry_drift", "Objects that differ from their declaration.", labels=["policy"])
        drift.add_metric(["Warn"], fleet.drifted)
        engines = GaugeMetricFamily("tenantry_engines_not_running", "Engines that do not run.", labels=["status"])
        for status, count in sorted((dict.fromkeys(NOT_RUNNING, 0) | fleet.engines()).items()):
            engines.add_metric([status], count)
        hot = GaugeMetricFamily("tenantry_hot_objects", "Objects that are reconciled although nothing changes.", labels=["kind"])
        for kind, count in fleet.hot_objects():
            hot.add_metric([kind], count)
        yield from (drift, engines, hot)
        yield _one("tenantry_deletion_seconds_max", "Age of the oldest deletion that has not ended.", fleet.longest_deletion())
        yield _one("tenantry_source_age_seconds", "Time since the Source that was read longest ago.", fleet.oldest_sync())
        yield _one("tenantry_source_held_back", "Objects whose deletion waits for an approval.", fleet.held_back)


class LeftEnginesCollector(Collector):
    """Shows the last count at each scrape."""

    def __init__(self, left: LeftEngines) -> None:
        self._left = left

    def collect(self) -> Iterator[Metric]:
        yield _one("tenantry_engines_without_environment", "Engines that no Environment has.", self._left.count)


def _with_empty_states(states: Iterable[tuple[str, str, str, int]]) -> dict[tuple[str, str, str], int]:
    """Return the numbers with a zero for each state without objects: series must not come and go with the objects."""
    found = {(kind, state, by): count for kind, state, by, count in states}
    who = {state: ("User", "Operator") if state == NEEDS_YOU else ("",) for state in STATES}
    return {(kind, state, by): 0 for kind, _, _ in found for state in STATES for by in who[state]} | found


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
