"""The start: commands that read a running `up`, and `up` on existing state until its first right answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median

from tests.bench.row import Row, Scale, Took, interleaved, row, told
from tests.bench.rows.server import Answers, started
from tests.support.ports import free_port

GATE = 8.0
FIRST_ANSWER_S = 0.7
AGAIN_S = 0.005
"""Between two requests of the one who waits for the first answer: it is no more precise than that."""
SOURCE = Path("examples/02-music-company")
TENANT = b"Chinook Europe"
"""One that a SUPERUSER sees."""
_TENANTRY = (sys.executable, "-m", "tenantry.cli.main")


def measure(scale: Scale) -> Sequence[Row]:
    """`get` and `tree` by the clock and in CPU time, and the first answer."""
    state, log, port = scale.folder / "start", scale.folder / "log", free_port()
    with _up(state, log, port, lambda: b"Ready: " in log.read_bytes()):
        asked = (*_TENANTRY, "token", "--state", str(state))
        token = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
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
    return (*rows, _first_answer(state, log, token, scale.repetitions))


def _first_answer(state: Path, log: Path, token: str, repetitions: int) -> Row:
    taken = sorted(_answered(state, log, token) for _ in range(repetitions))
    middle = median(taken)
    spread = (taken[0] / FIRST_ANSWER_S, taken[-1] / FIRST_ANSWER_S)
    figures = (told(middle), told(FIRST_ANSWER_S))
    work = "`tenantry up` on existing state, from the start of the process to the first right answer to `GET /api/v1/tenants`"
    return Row("start", work, told(FIRST_ANSWER_S), middle / FIRST_ANSWER_S, spread, "lower", 1.0, figures)


def _answered(state: Path, log: Path, token: str) -> float:
    port = free_port()
    since = time.perf_counter()
    with _up(state, log, port, lambda: _lists_tenant(port, token)):
        return time.perf_counter() - since


def _lists_tenant(port: int, token: str) -> bool:
    """Ask for the tenants. A client that imports little and has no TLS: it shares the machine with what it waits for."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        try:
            connection.request("GET", "/api/v1/tenants", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status == 200 and TENANT in answer.read()
        except (OSError, HTTPException):
            return False


def _up(state: Path, log: Path, port: int, answers: Answers) -> AbstractContextManager[int]:
    command = [*_TENANTRY, "up", str(SOURCE), "--state", str(state), "--listen", f"127.0.0.1:{port}", "--yes"]
    return started(command, answers, log, again_s=AGAIN_S)


def _ended(command: Sequence[str]) -> Took:
    """The cost of a process, to its end."""
    since = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Took(time.perf_counter() - since, used.ru_utime + used.ru_stime)
