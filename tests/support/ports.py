"""Ports for servers that are given one before they bind it.

A port that the kernel chose for a probe is free again at once. Any other process may get it, for a probe of its own or for a
connection that goes out, while a server still makes its folder. Ports below the kernel's range go only to those who name them.
Each worker of a run has a share of them, so that no two try the same one before either has bound it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 12_000
_TRIES = 1_000
_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on. No process is given it by chance, and this one is not given it twice."""
    # Not by `random`, which tests seed: each process would try the same ports in the same order.
    chance = SystemRandom()
    own = share_of(os.environ)
    for _ in range(_TRIES):
        port = chance.choice(own)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise RuntimeError(f"none of {_TRIES} ports is free")


def share_of(environment: Mapping[str, str]) -> range:
    """Return the ports of a worker of pytest-xdist, which its environment names; all of them for who is none."""
    worker, workers = environment.get("PYTEST_XDIST_WORKER", "gw0"), environment.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return range(_FIRST + int(worker.removeprefix("gw")), chosen_by_the_kernel().start, int(workers))


def chosen_by_the_kernel() -> range:
    """Return the ports that the kernel gives to who names none."""
    first, last = _RANGE.read_text().split() if _RANGE.exists() else ("32768", "60999")
    return range(max(int(first), _FIRST + _TRIES), int(last) + 1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
