"""The API server's client and the leader election for Prometheus, by client-go's and controller-runtime's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class ClientCollector(Collector):
    """requests: how many there were, by method and code; `<error>` for one without an answer."""

    def __init__(self, requests: Mapping[tuple[str, str], int]) -> None:
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        counter = CounterMetricFamily("rest_client_requests", "Requests to the API server.", labels=["method", "code"])
        for labels, count in sorted(self._requests.items()):
            counter.add_metric(list(labels), count)
        yield counter


class LeaderCollector(Collector):
    """name: of the Lease. leads: whether this process holds it."""

    def __init__(self, name: str, leads: Callable[[], bool]) -> None:
        self._name = name
        self._leads = leads

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("leader_election_master_status", "1 for the holder of the Lease, else 0.", labels=["name"])
        gauge.add_metric([self._name], float(self._leads()))
        yield gauge
