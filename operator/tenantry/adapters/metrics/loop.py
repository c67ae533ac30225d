"""The reconcile loop for Prometheus, by controller-runtime's names and labels, which stock dashboards expect.

The label is the kind: no series belongs to an object, so their number is the same for any number of environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tenantry.model.measures import RESULTS, KindMeasures, LoopMeasures, Times

CONTROLLER = ["controller"]
QUEUE = ["name", "controller"]
_COUNTS: dict[str, tuple[str, list[str], Callable[[KindMeasures], int]]] = {
    "controller_runtime_reconcile_errors": ("Passes that failed.", CONTROLLER, lambda kind: kind.results["error"]),
    "controller_runtime_terminal_reconcile_errors": ("Failures that only an edit ends.", CONTROLLER, lambda kind: kind.terminal),
    "workqueue_adds": ("Objects that were added to the queue.", QUEUE, lambda kind: kind.adds),
    "workqueue_retries": ("Objects that came again because a pass failed.", QUEUE, lambda kind: kind.retries),
}
_LEVELS: dict[str, tuple[str, list[str], Callable[[KindMeasures], int]]] = {
    "controller_runtime_active_workers": ("Passes that run.", CONTROLLER, lambda kind: kind.active),
    "workqueue_depth": ("Objects that wait for a pass.", QUEUE, lambda kind: kind.depth),
}
_TIMES: dict[str, tuple[str, list[str], Callable[[KindMeasures], Times]]] = {
    "controller_runtime_reconcile_time_seconds": ("Length of a pass.", CONTROLLER, lambda kind: kind.worked),
    "workqueue_queue_duration_seconds": ("Wait for a pass.", QUEUE, lambda kind: kind.waited),
    "workqueue_work_duration_seconds": ("Length of a pass.", QUEUE, lambda kind: kind.worked),
}


class LoopCollector(Collector):
    """Reads the numbers at each scrape. kinds: all that have passes, those without any yet included."""

    def __init__(self, measures: LoopMeasures, kinds: tuple[str, ...]) -> None:
        self._measures = measures
        self._kinds = kinds

    def collect(self) -> Iterator[Metric]:
        kinds = {name: self._measures.kinds[name] for name in self._kinds}
        for name, (text, labels, value) in _COUNTS.items():
            counter = CounterMetricFamily(name, text, labels=labels)
            for kind, measured in kinds.items():
                counter.add_metric(_labels(kind, labels), value(measured))
            yield counter
        for name, (text, labels, value) in _LEVELS.items():
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for kind, measured in kinds.items():
                gauge.add_metric(_labels(kind, labels), value(measured))
            yield gauge
        for name, (text, labels, times) in _TIMES.items():
            histogram = HistogramMetricFamily(name, text, labels=labels)
            for kind, measured in kinds.items():
                spread = times(measured)
                histogram.add_metric(_labels(kind, labels), spread.buckets(), spread.sum)
            yield histogram
        yield self._results(kinds)
        yield from self._unfinished()

    def _results(self, kinds: dict[str, KindMeasures]) -> Metric:
        counter = CounterMetricFamily(
            "controller_runtime_reconcile", "Passes that ended, by result.", labels=[*CONTROLLER, "result"]
        )
        for kind, measured in kinds.items():
            for result in RESULTS:
                counter.add_metric([kind.lower(), result], measured.results[result])
        return counter

    def _unfinished(self) -> Iterator[Metric]:
        running = self._measures.unfinished()
        workers = GaugeMetricFamily(
            "controller_runtime_max_concurrent_reconciles", "Passes that may run at once, of all kinds.", labels=CONTROLLER
        )
        summed = GaugeMetricFamily("workqueue_unfinished_work_seconds", "Seconds of all passes that run.", labels=QUEUE)
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Seconds of the longest pass that runs.", labels=QUEUE
        )
        for kind in self._kinds:
            total, most = running.get(kind, (0.0, 0.0))
            workers.add_metric(_labels(kind, CONTROLLER), self._measures.workers)
            summed.add_metric(_labels(kind, QUEUE), total)
            longest.add_metric(_labels(kind, QUEUE), most)
        yield from (workers, summed, longest)


def _labels(kind: str, names: list[str]) -> list[str]:
    """The kind in small letters, as controller-runtime names a controller by default."""
    return [kind.lower()] * len(names)
