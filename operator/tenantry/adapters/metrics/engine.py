"""The requests to engines, and what they hold, for Prometheus. One process counts all its engines together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from tenantry.adapters.metrics.registry import registry_of
from tenantry.model.measures import EngineHoldings, RequestMeasures

CLASSES = ("2xx", "3xx", "4xx", "5xx")


class EngineCollector(Collector):
    """Reads the numbers at each scrape."""

    def __init__(self, requests: RequestMeasures, held: Callable[[], EngineHoldings]) -> None:
        self._requests = requests
        self._held = held

    def collect(self) -> Iterator[Metric]:
        seconds = HistogramMetricFamily(
            "tenantry_engine_request_seconds", "Until an engine's answer began.", labels=["operation"]
        )
        answers = CounterMetricFamily("tenantry_engine_requests", "Requests that engines answered.", labels=["operation", "code"])
        found: Counter[tuple[str, str]] = Counter()
        for (operation, status), count in self._requests.answers.items():
            found[operation, f"{status // 100}xx"] += count
        for operation, times in self._requests.times.items():
            seconds.add_metric([operation], times.buckets(), times.sum)
            for code in CLASSES:
                answers.add_metric([operation, code], found[operation, code])
        yield from (seconds, answers)
        held, sizes = self._held(), GaugeMetricFamily("tenantry_engine_bytes", "Bytes that engines hold.", labels=["of"])
        for of, size in sorted(held.sizes.items()):
            sizes.add_metric([of], size)
        yield sizes
        if held.backed_up is not None:
            about = "Age of the newest backup of the engine that was backed up longest ago."
            age = max(0.0, time.time() - held.backed_up)
            yield GaugeMetricFamily("tenantry_backup_age_seconds_max", about, value=age)


def exposition_of(
    requests: RequestMeasures, held: Callable[[], EngineHoldings], numbers: CollectorRegistry | None = None
) -> Callable[[], bytes]:
    """Return what writes the numbers as Prometheus reads them. numbers: the other ones of this process; default: its own use."""
    registry = registry_of(()) if numbers is None else numbers
    registry.register(EngineCollector(requests, held))
    return lambda: generate_latest(registry)
