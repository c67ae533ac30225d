"""The memory that a block of a test takes at its peak, with all threads of the process, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ABOUT = Path("/proc/self")
_RESET_PEAK = "5"


@dataclass
class Growth:
    """Bytes above those before the block; known after its end."""

    peak: int = 0


@contextmanager
def growing() -> Iterator[Growth]:
    """Measure the block."""
    (_ABOUT / "clear_refs").write_text(_RESET_PEAK)
    before, growth = _resident("VmRSS"), Growth()
    yield growth
    growth.peak = _resident("VmHWM") - before


def _resident(name: str) -> int:
    lines = (_ABOUT / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024
