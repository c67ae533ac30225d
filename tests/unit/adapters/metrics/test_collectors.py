"""The numbers of a process for Prometheus: conventional names and labels, as many series for any number of objects."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tenantry.adapters.metrics.cluster import ClientCollector, LeaderCollector
from tenantry.adapters.metrics.loop import LoopCollector
from tenantry.adapters.metrics.operator import OperatorNumbers, loop_of, together
from tenantry.adapters.metrics.registry import registry_of
from tenantry.hosts.metrics_endpoint import metrics_served
from tenantry.model.measures import LoopMeasures
from tenantry.model.resource import Ref
from tests.scenario.tools import lacking

KINDS = ("Environment", "Tenant")
CONTROLLER, QUEUE = {"controller"}, {"controller", "name"}
CONVENTIONAL = {
    "controller_runtime_reconcile_total": {"controller", "result"},
    "controller_runtime_reconcile_errors_total": CONTROLLER,
    "controller_runtime_terminal_reconcile_errors_total": CONTROLLER,
    "controller_runtime_reconcile_time_seconds_count": CONTROLLER,
    "controller_runtime_active_workers": CONTROLLER,
    "controller_runtime_max_concurrent_reconciles": CONTROLLER,
    "workqueue_depth": QUEUE,
    "workqueue_adds_total": QUEUE,
    "workqueue_retries_total": QUEUE,
    "workqueue_queue_duration_seconds_count": QUEUE,
    "workqueue_work_duration_seconds_count": QUEUE,
    "workqueue_unfinished_work_seconds": QUEUE,
    "workqueue_longest_running_processor_seconds": QUEUE,
    "rest_client_requests_total": {"method", "code"},
    "leader_election_master_status": {"name"},
}
"""By controller-runtime 0.20 and client-go."""


def after(passes: int) -> LoopMeasures:
    """The numbers of a loop after so many passes over as many environments."""
    measures = LoopMeasures(lambda: 0.0, workers=4)
    for number in range(passes):
        key = Ref("Environment", f"tenant-{number}", "dev")
        for step in (measures.added, measures.taken, measures.done):
            step(key)
        measures.ended(key, "success")
    return measures


def collectors(measures: LoopMeasures) -> Iterable[Collector]:
    requests = Counter({("GET", "200"): 3, ("PATCH", "<error>"): 1})
    return LoopCollector(measures, KINDS), ClientCollector(requests), leader(0)


def leader(*held: int, count: int = 1) -> LeaderCollector:
    return LeaderCollector("tenantry-operator", lambda: frozenset(held), lambda: count)


def text(measures: LoopMeasures) -> str:
    return generate_latest(registry_of(collectors(measures))).decode()


def test_another_process_reads_the_same_loop_from_the_text() -> None:
    clock = iter((0.0, 0.3, 7.0) * 40)
    measures = LoopMeasures(lambda: next(clock))
    for number in range(30):
        key = Ref("Environment", f"tenant-{number}", "dev")
        for step in (measures.added, measures.taken, measures.done):
            step(key)
        measures.ended(key, "error" if number % 3 else "success")
    for number in (40, 41):
        measures.added(Ref("Tenant", "", f"t{number}"))
    measures.taken(Ref("Tenant", "", "t41"))
    read = loop_of(text(measures), KINDS)
    assert read is not None

    def shown(loop: LoopMeasures) -> dict[str, tuple[object, ...]]:
        return {
            name: (kind.depth, kind.active, kind.results, *(times.quantile(share) for share in (0.5, 0.9, 0.99)), times.sum)
            for name, kind in loop.kinds.items()
            for times in (kind.waited, kind.worked)
        }

    assert shown(read) == shown(measures)
    assert read.kinds["Tenant"].depth == 1


def test_a_replica_that_stands_by_is_not_read() -> None:
    told = generate_latest(registry_of((LoopCollector(after(1), KINDS), leader()))).decode()
    assert loop_of(told, KINDS) is None
    assert loop_of("", KINDS) is None


async def test_the_replica_that_leads_is_asked_among_all_and_its_answer_serves_many() -> None:
    def registry(passes: int, *held: int) -> CollectorRegistry:
        return registry_of((LoopCollector(after(passes), KINDS), leader(*held)))

    async with metrics_served("127.0.0.2:0", registry(1)) as port, metrics_served(f"127.0.0.3:{port}", registry(7, 0)):
        asked: list[str] = []

        def addresses(host: str, _: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.2", "127.0.0.3", "127.0.0.4"]  # nobody listens at the last one

        async with aclosing(OperatorNumbers(f"http://operator.test:{port}", KINDS, addresses)) as numbers:
            loops = await asyncio.gather(*(numbers.loop() for _ in range(10)))
    assert asked == ["operator.test"]
    assert {None if loop is None else loop.kinds["Environment"].results["success"] for loop in loops} == {7}


def test_the_numbers_of_operators_that_share_the_work_are_added_up() -> None:
    loops = []
    for passes, shard in ((2, 0), (5, 3)):
        registry = registry_of((LoopCollector(after(passes), KINDS), leader(shard, count=4)))
        loop = loop_of(generate_latest(registry).decode(), KINDS)
        assert loop is not None
        loops.append(loop)
    added = together(loops)
    assert added is not None
    kind = added.kinds["Environment"]
    assert (kind.results["success"], kind.worked.count, kind.waited.count) == (7, 7, 7)
    assert together([]) is None


async def test_without_an_operator_there_is_no_loop() -> None:
    def unknown(host: str, _: int) -> list[str]:
        raise OSError(f"{host} is not known")

    async with aclosing(OperatorNumbers("http://operator.test:8082", KINDS, unknown)) as numbers:
        assert await numbers.loop() is None


def test_names_and_labels_are_those_that_stock_dashboards_expect() -> None:
    found = {
        sample.name: set(sample.labels) for family in text_string_to_metric_families(text(after(1))) for sample in family.samples
    }
    assert CONVENTIONAL.items() <= found.items()


def test_the_passes_of_each_kind_are_counted() -> None:
    told = text(after(3))
    for line in (
        'controller_runtime_reconcile_total{controller="environment",result="success"} 3.0',
        'controller_runtime_reconcile_total{controller="tenant",result="success"} 0.0',
        'workqueue_queue_duration_seconds_bucket{controller="environment",le="0.001",name="environment"} 3.0',
        'controller_runtime_max_concurrent_reconciles{controller="tenant"} 4.0',
        'rest_client_requests_total{code="<error>",method="PATCH"} 1.0',
        'leader_election_master_status{name="tenantry-operator"} 1.0',
        "tenantry_shards 1.0",
        'tenantry_shard_held{shard="0"} 1.0',
    ):
        assert line in told


def test_there_are_as_many_series_for_one_object_as_for_a_thousand() -> None:
    def series(passes: int) -> int:
        return sum(len(family.samples) for family in text_string_to_metric_families(text(after(passes))))

    assert series(1) == series(1000)


def test_prometheus_finds_nothing_wrong_with_names_and_units() -> None:
    if shutil.which("promtool") is None:
        lacking("promtool is not installed")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text(after(2)), capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
