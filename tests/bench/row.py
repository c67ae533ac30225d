"""A row of the benchmark table: a subject and a reference, interleaved in one run, as the ratio of their medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Scale:
    """The part of the full size that is measured, the repetitions, and the folder (on a disk) to do it in.

    only: the parts of a benchmark that are measured, such as attacks; all of them where empty.
    """

    folder: Path
    share: float = 1.0
    repetitions: int = 7
    only: frozenset[str] = frozenset()

    def of(self, full: int) -> int:
        """The part of a full size that is measured; at least 1."""
        return max(1, round(full * self.share))


@dataclass
class Took:
    """Seconds on the clock, and CPU seconds of all threads of this process, with those of its children where they count."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def stopwatch(*, children: bool = False) -> Iterator[Took]:
    """Measures the block. children: the CPU time of processes that it starts, and that end in it, is its own."""
    took = Took()
    cpu, wall = _cpu_s(children), time.perf_counter()
    yield took
    took.wall, took.cpu = time.perf_counter() - wall, _cpu_s(children) - cpu


def _cpu_s(children: bool) -> float:
    times = os.times()
    return time.process_time() + (times.children_user + times.children_system if children else 0.0)


def slowest(taken: Sequence[Took]) -> float:
    """The seconds that 99 % of few repetitions take at most: those of the slowest."""
    return max(each.wall for each in taken)


Work = Callable[[], Took]


@dataclass(frozen=True)
class Times:
    """The times of both sides, repetition by repetition."""

    subject: Sequence[Took]
    reference: Sequence[Took]

    @property
    def wall(self) -> tuple[float, float]:
        """Medians of subject and reference, in seconds."""
        return _median(self.subject, "wall"), _median(self.reference, "wall")

    @property
    def cpu(self) -> tuple[float, float]:
        """Medians of subject and reference, in CPU seconds."""
        return _median(self.subject, "cpu"), _median(self.reference, "cpu")


def _median(taken: Sequence[Took], what: str) -> float:
    return float(statistics.median(getattr(took, what) for took in taken))


def interleaved(subject: Work, reference: Work, repetitions: int) -> Times:
    """Runs both in turn, which of them first by turns. One repetition more, the first, warms up and is not counted."""
    ours: list[Took] = []
    theirs: list[Took] = []
    for turn in range(repetitions + 1):
        for work, taken in ((subject, ours), (reference, theirs))[:: 1 if turn % 2 else -1]:
            taken.append(work())
    return Times(ours[1:], theirs[1:])


@dataclass(frozen=True)
class Row:
    """One line of the table.

    ratio: subject to reference, of times where lower is better, of rates where higher is. spread: the least and the
    greatest ratio of single repetitions. gate: None for a figure that is only reported. beside: further figures by name.
    held: False where another bound than the gate is missed.
    """

    id: str
    work: str
    reference: str
    ratio: float
    spread: tuple[float, float]
    better: Better
    gate: float | None = None
    figures: tuple[str, str] = ("", "")
    beside: dict[str, str] = field(default_factory=dict)
    held: bool = True

    @property
    def passed(self) -> bool:
        """The verdict: is the gate kept, and every other bound?"""
        if self.gate is None or not self.held:
            return self.held
        return self.ratio <= self.gate if self.better == "lower" else self.ratio >= self.gate

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "work": self.work,
            "reference": self.reference,
            "ratio": round(self.ratio, 3),
            "spread": [round(bound, 3) for bound in self.spread],
            "better": self.better,
            "gate": self.gate,
            "passed": self.passed,
            "figures": {"subject": self.figures[0], "reference": self.figures[1]},
            "beside": self.beside,
        }


def row(
    id_: str,
    work: str,
    reference: str,
    times: Times,
    better: Better,
    gate: float | None,
    *,
    unit: str = "s",
    amount: float = 1.0,
    **beside: str,
) -> Row:
    """The row of measured times. amount: how much (`unit`) was done, for a rate; 1 shows the time itself."""
    ratios = sorted(_ratio(ours.wall, theirs.wall, better) for ours, theirs in zip(times.subject, times.reference, strict=True))
    ours, theirs = times.wall
    figures = (_figure(ours, amount, unit, better), _figure(theirs, amount, unit, better))
    told = {"cpu": f"{times.cpu[0] / times.cpu[1]:.2f}x"} if times.cpu[1] else {}
    return Row(id_, work, reference, _ratio(ours, theirs, better), (ratios[0], ratios[-1]), better, gate, figures, told | beside)


def _ratio(subject: float, reference: float, better: Better) -> float:
    return subject / reference if better == "lower" else reference / subject


def _figure(seconds: float, amount: float, unit: str, better: Better) -> str:
    return f"{amount / seconds:,.0f} {unit}" if better == "higher" else told(seconds)


def told(seconds: float) -> str:
    """A time as people say it."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
