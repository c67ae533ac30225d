"""The requests to the facade, for Prometheus. Labels are methods, routes and codes: nothing of a tenant."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RequestNumbers(Collector):
    """Counts requests by method, route and code."""

    def __init__(self) -> None:
        self._requests = Counter("tenantry_requests", "Requests answered.", ["method", "route", "code"], registry=None)
        self._seconds = Histogram(
            "tenantry_request_seconds", "Until the answer began.", ["method"], buckets=BUCKETS, registry=None
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._requests.collect()
        yield from self._seconds.collect()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer. route: the path with its parameters' names; seconds: until the answer began."""
        labels = (method, route, status)
        held = self._children.get(labels)
        if held is None:
            # A method is the client's own text: any other than these would be a label of its own.
            known = method if method in METHODS else "other"
            held = (self._requests.labels(known, route, str(status)), self._seconds.labels(known))
            if known == method:
                self._children[labels] = held
        held[0].inc()
        held[1].observe(seconds)
