"""O7: the CPU time that traces cost, while embedded environments come to Ready. Each run is a process of its own.

An embedded environment is cheap, so the ratio is reported only: the bound of O7 is a share of P1's CPU time.

The collector is in this process, so its own time does not count. `python -m tests.bench.tracing STATE COUNT` prints the CPU
seconds of one run, with traces where the variables of OpenTelemetry name a collector.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tenantry.cli.processes.serving import loop_factory, tune_collector
from tenantry.cli.processes.tracing import traced
from tests.bench.row import Row, Scale, Took, interleaved, told
from tests.bench.served import platform
from tests.scenario.cli import environment
from tests.support.trace_collector import collecting

ENVIRONMENTS = 1000


def measure(scale: Scale) -> Sequence[Row]:
    """The same work with and without traces, in turn."""
    count, numbers = scale.of(ENVIRONMENTS), itertools.count()
    with collecting() as collector:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}

        def work(variables: Mapping[str, str]) -> Took:
            return _run(scale.folder / f"state-{next(numbers)}", count, variables)

        times = interleaved(lambda: work(endpoint), lambda: work({}), scale.repetitions)
        spans = len(collector.spans) / (scale.repetitions + 1) / count
    ratios = sorted(ours.cpu / theirs.cpu for ours, theirs in zip(times.subject, times.reference, strict=True))
    on, off = times.cpu
    beside = {"spans of an environment": f"{spans:.1f}", "CPU of an environment": f"{(on - off) / count * 1000:+.2f} ms"}
    what = f"CPU of {count:,} environments to Ready, traced"
    figures = (told(on), told(off))
    return (Row("O7", what, "the same without traces", on / off, (ratios[0], ratios[-1]), "lower", None, figures, beside),)


def _run(state: Path, count: int, variables: Mapping[str, str]) -> Took:
    command = [sys.executable, "-m", "tests.bench.tracing", str(state), str(count)]
    own = environment() | {"PYTHONPATH": ":".join(sys.path), **variables}
    ended = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    wall, cpu = map(float, ended.stdout.split())
    return Took(wall, cpu)


async def _made(state: Path, count: int) -> tuple[float, float]:
    """Seconds on the clock and of CPU, without the start of the process. With the export of the last spans."""
    with traced("bench"):
        wall, cpu = time.perf_counter(), time.process_time()
        async with platform(state, count):
            pass
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    tune_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(*runner.run(_made(Path(sys.argv[1]), int(sys.argv[2]))))
