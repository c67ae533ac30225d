"""The start: commands that read a running `up`, and `up` on existing state until its first answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from tests.bench.row import Row, Scale, Took, interleaved, row, told
from tests.bench.rows.server import started
from tests.support.ports import free_port

GATE = 8.0
FIRST_ANSWER_S = 0.7
SOURCE = Path("examples/02-music-company")
_TENANTRY = (sys.executable, "-m", "tenantry.cli.main")


def measure(scale: Scale) -> Sequence[Row]:
    """`get` and `tree` by the clock and in CPU time, and the first answer."""
    state = scale.folder / "start"
    with _up(state, scale.folder / "log", "/e/americas/production/healthz"):
        rows = [
            row("start", f"`tenantry {' '.join(command)}` of a running `up`", "python -c pass", times, "lower", GATE)
            for command in (("get", "environments"), ("tree",))
            for times in [
                interleaved(
                    lambda command=command: _ended((*_TENANTRY, *command, "--state", str(state))),  # type: ignore[misc]
                    lambda: _ended((sys.executable, "-c", "pass")),
                    scale.repetitions,
                )
            ]
        ]
    return (*rows, _first_answer(state, scale))


def _first_answer(state: Path, scale: Scale) -> Row:
    taken = sorted(_answered(state, scale.folder / "log") for _ in range(scale.repetitions))
    middle = median(taken)
    spread = (taken[0] / FIRST_ANSWER_S, taken[-1] / FIRST_ANSWER_S)
    figures = (told(middle), told(FIRST_ANSWER_S))
    work = "`tenantry up` on existing state, from the start of the process to its first answer"
    return Row("start", work, told(FIRST_ANSWER_S), middle / FIRST_ANSWER_S, spread, "lower", 1.0, figures)


def _answered(state: Path, log: Path) -> float:
    since = time.perf_counter()
    with _up(state, log):
        return time.perf_counter() - since


def _up(state: Path, log: Path, answers: str = "/healthz") -> AbstractContextManager[int]:
    port = free_port()
    command = [*_TENANTRY, "up", str(SOURCE), "--state", str(state), "--listen", f"127.0.0.1:{port}", "--yes"]
    return started(command, f"http://127.0.0.1:{port}{answers}", log)


def _ended(command: Sequence[str]) -> Took:
    """The cost of a process, to its end."""
    since = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Took(time.perf_counter() - since, used.ru_utime + used.ru_stime)
