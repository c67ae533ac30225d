"""`make shake`: run a tier in random order while every core is kept busy. Tests that need an order, or a quiet machine, fall.

TIER names the tier, `test` by default. SEED repeats the order of an earlier run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ci.shuffled import SEED

ROOT = Path(__file__).parents[2]
LONGEST_S = 7200
"""A burner ends after this time in any case, and when its standard input ends: nothing burns on without this process."""
_BURN = f"""
import sys, threading, time
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0)), daemon=True).start()
end = time.monotonic() + {LONGEST_S}
while time.monotonic() < end:
    sum(range(10_000))
"""


def main() -> int:
    """Return the exit code of make."""
    tier, seed = os.environ.get("TIER") or "test", os.environ.get("SEED") or str(random.randrange(10**6))
    print(f"make shake TIER={tier} SEED={seed}", flush=True)
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    shaken = {"PYTEST_ADDOPTS": "-p tests.ci.shuffled", SEED: seed, "PYTHONPATH": os.pathsep.join(paths)}
    with busy_cores():
        return subprocess.run(["make", tier], cwd=ROOT, env={**os.environ, **shaken}, check=False).returncode


@contextmanager
def busy_cores(count: int | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many burners, or one for each core, for the time of the block."""
    many = count or os.cpu_count() or 1
    burners = [subprocess.Popen([sys.executable, "-c", _BURN], stdin=subprocess.PIPE) for _ in range(many)]
    try:
        yield burners
    finally:
        for each in burners:
            each.kill()
            each.wait()


if __name__ == "__main__":
    sys.exit(main())
