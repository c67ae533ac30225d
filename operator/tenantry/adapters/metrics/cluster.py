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
    """name: of the Lease. held: the shards on which this process acts; count: of all shards."""

    def __init__(self, name: str, held: Callable[[], frozenset[int]], count: Callable[[], int]) -> None:
        self._name = name
        self._held = held
        self._count = count

    def collect(self) -> Iterator[Metric]:
        held = self._held()
        leads = GaugeMetricFamily("leader_election_master_status", "1 for the holder of the Lease, else 0.", labels=["name"])
        leads.add_metric([self._name], float(bool(held)))
        yield leads
        yield GaugeMetricFamily("tenantry_shards", "Shards of the work that operators share.", value=self._count())
        shards = GaugeMetricFamily("tenantry_shard_held", "1 for each shard on which this operator acts.", labels=["shard"])
        for shard in sorted(held):
            shards.add_metric([str(shard)], 1.0)
        yield shards
