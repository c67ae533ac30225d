"""A server under load: a process, the requests that it answers, and its figures."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.bench.row import Took
from tests.bench.rows.programs import wrk

CONNECTIONS = 16
STARTS_WITHIN_S = 60.0
AGAIN_S = 0.05
_SCRIPT = Path(__file__).parent / "report.lua"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    """A running server. requests: method GET unless it has a body; p99_ms: of each round, by name."""

    name: str
    process: int
    base: str
    headers: Mapping[str, str]
    requests: Mapping[str, Request]
    p99_ms: dict[str, list[float]] = field(default_factory=dict)

    def load(self, request: str, seconds: float) -> Took:
        """Load it with one request from all connections. wall: seconds for each request; cpu: the same of the process."""
        asked = self.requests[request]
        command = [wrk(), "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "-s", str(_SCRIPT)]
        command += [part for name, value in self.headers.items() for part in ("-H", f"{name}: {value}")]
        command += [f"{self.base}{asked.path}", *(["--", asked.body] if asked.body else [])]
        before = self.cpu_s()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        spent = self.cpu_s() - before
        told = json.loads(done.stdout.splitlines()[-1])
        if told["failed"]:
            raise RuntimeError(f"{self.name} refused {told['failed']} of {told['requests']} requests of {request}")
        self.p99_ms.setdefault(request, []).append(told["p99"] / 1000)
        return Took(told["microseconds"] / 1e6 / told["requests"], spent / told["requests"])

    @property
    def memory(self) -> int:
        """Resident bytes of the process."""
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024

    def cpu_s(self) -> float:
        """CPU seconds of the process since its start."""
        times = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / _TICKS


@dataclass(frozen=True)
class Request:
    """A request. body: JSON, which makes it a POST."""

    path: str
    body: str = ""


Answers = Callable[[], bool]


@contextmanager
def started(
    command: Sequence[str], health: str | Answers, log: Path, *, again_s: float = AGAIN_S, **environment: str
) -> Iterator[int]:
    """A process that answers at the URL `health`, or for which `health` holds; its id. It ends with the block.

    again_s: seconds between two looks.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        try:
            _wait_for(process, health, log, again_s)
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(process: subprocess.Popen[bytes], health: str | Answers, log: Path, again_s: float) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        if _is_healthy(health) if isinstance(health, str) else health():
            return
        time.sleep(again_s)
    raise RuntimeError(f"{process.args!r} does not serve {health}: {log.read_text()[-2000:]}")


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
