"""H0: what a dedicated engine costs that nobody uses. It has an app; each start is a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from tests.bench.row import Row, Scale, told
from tests.bench.rows.server import Server, started
from tests.support.ports import free_port

CPU_S = 1.5
BYTES = 60 << 20
IDLE_S = 2.0
PACKAGE = Path("examples/02-music-company/packages/music-store-1.0.0.tapp")


class Cost(NamedTuple):
    """CPU seconds until it is ready. Resident bytes: once it is idle; of these, what no file holds; after a sign-in."""

    cpu: float
    idle: float
    anonymous: float
    used: float


def measure(scale: Scale) -> Sequence[Row]:
    """The start and the memory. The first start installs the app and is not counted."""
    data, log = scale.folder / "engine", scale.folder / "log"
    install(data, log)
    found = [cost_of(data, log) for _ in range(scale.repetitions)]
    beside = {"of_these_not_of_files": _mib(median(each.anonymous for each in found))}
    beside["after_a_sign-in"] = _mib(median(each.used for each in found))
    start = "`tenantry engine` with an app, CPU time until it is ready"
    memory = f"resident memory of an engine with an app, {IDLE_S:g} s idle"
    return (
        _row(start, [each.cpu for each in found], CPU_S, told, {}),
        _row(memory, [each.idle for each in found], BYTES, _mib, beside),
    )


def _row(work: str, taken: Sequence[float], limit: float, say: Callable[[float], str], beside: dict[str, str]) -> Row:
    middle = median(taken)
    spread = (min(taken) / limit, max(taken) / limit)
    return Row("H0", work, say(limit), middle / limit, spread, "lower", 1.0, (say(middle), say(limit)), beside)


def cost_of(data: Path, log: Path) -> Cost:
    url = f"http://127.0.0.1:{free_port()}"
    with started(_command(data, url), f"{url}/readyz", log) as process:
        server = Server("engine", process, "", {}, {})
        cpu = server.cpu_s()
        time.sleep(IDLE_S)
        idle, anonymous = float(server.memory), _anonymous(process)
        with httpx.Client(base_url=url, timeout=60) as client:
            form = {"username": "admin", "password": _password(data)}
            token = client.post("/api/v1/auth/token", data=form).raise_for_status().json()["access_token"]
            client.get("/api/v1/admin/apps", headers={"Authorization": f"Bearer {token}"}).raise_for_status()
        return Cost(cpu, idle, anonymous, float(server.memory))


def install(data: Path, log: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with started(_command(data, url), f"{url}/readyz", log), PACKAGE.open("rb") as package:
        auth = ("admin", _password(data))
        httpx.post(f"{url}/api/v1/admin/apps/publish", auth=auth, files={"file": package}, timeout=60).raise_for_status()


def _command(data: Path, url: str) -> Sequence[str]:
    return (sys.executable, "-m", "tenantry.cli.main", "engine", "--data", str(data), "--listen", url.removeprefix("http://"))


def _password(data: Path) -> str:
    return (data / "admin-password").read_text().strip()


def _anonymous(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return float(next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1024)


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
