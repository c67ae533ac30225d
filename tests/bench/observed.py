"""O7: processor time of the work of P16 with its metrics and without, and of reading one row with and without a count.

Both sides are one process, by turns. The gate is 1 % of processor time; the least of each side is compared, because all that
else a machine does only adds.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest import mock

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Scope

from tenantry.bootstrap import embedded
from tenantry.cli.processes.serving import loop_factory
from tenantry.engine.data.direct import ONE, DirectRows
from tenantry.model.measures import LoopMeasures, RequestMeasures
from tenantry.rest.routes import Route
from tenantry.runtime.reconcile.hot_objects import HotObjects
from tests.bench.p16 import to_ready, write_source
from tests.bench.row import Row, Scale, Times, Took, interleaved, stopwatch

TENANTS = 1000
READS = 20_000
GATE = 1.01
ROW_READ_S = 150e-6
"""Processor time of one row read by its key, signed in: P28 of docs/benchmarks.md."""


def measure(scale: Scale) -> Sequence[Row]:
    """Both rows."""
    return _loop(scale), _reads(scale)


def _loop(scale: Scale) -> Row:
    count = scale.of(TENANTS)
    source = scale.folder / "o7-source"
    write_source(source, count)
    numbers = itertools.count()

    def work() -> Took:
        gc.collect()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(to_ready(scale.folder / f"o7-{next(numbers)}", source, count))[0]

    def without() -> Took:
        with no_metrics(embedded):
            return work()

    times = interleaved(work, without, max(scale.repetitions, 3))
    about = f"embedded: {2 * count:,} YAML documents to Ready, with metrics"
    return _row(about, "the same without loop, fleet and hot objects", times, 1, "s")


@contextmanager
def no_metrics(host: ModuleType) -> Iterator[None]:
    """The loop counts nothing, and nobody follows the fleet. host: the module that composes the platform."""

    def nothing(*_: object, **__: object) -> None:
        return None

    with ExitStack() as stack:
        for name in ("added", "taken", "done", "ended", "retried"):
            stack.enter_context(mock.patch.object(LoopMeasures, name, nothing))
        stack.enter_context(mock.patch.object(HotObjects, "idle", lambda *_: False))
        stack.enter_context(mock.patch.object(HotObjects, "take_cooled", lambda _: ()))
        stack.enter_context(mock.patch.object(host, "fleet_of", lambda _: None))
        yield


def _reads(scale: Scale) -> Row:
    """The cost of a count, as a share of one row read: a whole read varies by more than it."""
    count = scale.of(READS)
    body = json.dumps({"id": 1, "name": "x" * 80}).encode()

    async def endpoint(request: Request, app: str, table: str, key: str) -> Response:
        return Response(body)

    class Uncounted(RequestMeasures):
        def answered(self, *_: object, **__: object) -> None:
            return None

    def served(measures: RequestMeasures) -> Callable[[], Took]:
        app = DirectRows(_nowhere, [Route("GET", ONE, endpoint, 200, None)], "", measures)
        return lambda: asyncio.run(_read(app, count))

    times = interleaved(served(RequestMeasures()), served(Uncounted()), max(scale.repetitions, 3))
    ours, theirs = (min(each.cpu for each in side) / count for side in (times.subject, times.reference))
    ratio = 1 + max(0.0, ours - theirs) / ROW_READ_S
    figures = (f"{1e6 * (ours - theirs):.2f} us for a count", f"{1e6 * ROW_READ_S:.0f} us for a row read")
    return Row("O7", "an engine's row read, counted", "the same uncounted", ratio, (ratio, ratio), "lower", GATE, figures)


async def _read(app: DirectRows, count: int) -> Took:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        return None

    def scope() -> Scope:
        path = "/data/crm/contacts/1"
        return {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "root_path": ""}

    with stopwatch() as took:
        for _ in range(count):
            await app(scope(), receive, send)
    return took


async def _nowhere(*_: object) -> None:
    raise AssertionError("each request is for a row")


def _row(work: str, reference: str, times: Times, amount: int, unit: str) -> Row:
    """The row of the least processor time of both sides."""
    ratios = sorted(ours.cpu / theirs.cpu for ours, theirs in zip(times.subject, times.reference, strict=True))
    ours, theirs = (min(each.cpu for each in side) / amount for side in (times.subject, times.reference))
    figures = (f"{ours:.3f} {unit} cpu", f"{theirs:.3f} {unit} cpu")
    ratio = ours / theirs
    spread = min(ratios[0], ratio), max(ratios[-1], ratio)
    return Row("O7", work, reference, ratio, spread, "lower", GATE, figures)
