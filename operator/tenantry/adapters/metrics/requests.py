"""The requests to the facade, for Prometheus. Labels are methods, routes and codes: nothing of a tenant."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tenantry.model.measures import FacadeMeasures


class RequestCollector(Collector):
    """Reads the numbers at each scrape."""

    def __init__(self, measures: FacadeMeasures) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        answers = CounterMetricFamily("tenantry_requests", "Requests answered.", labels=["method", "route", "code"])
        for (method, route, status), number in self._measures.answers.copy().items():
            answers.add_metric([method, route, str(status)], number)
        yield answers
        seconds = HistogramMetricFamily("tenantry_request_seconds", "Until the answer began.", labels=["method"])
        for method, times in self._measures.times.copy().items():
            seconds.add_metric([method], times.buckets(), times.sum)
        yield seconds
