"""Objects that are reconciled over and over although nothing changes, found in bounded memory.

A pass of an object at rest is rare: one each resync. So passes are first counted in a small table of hashes, and only an
object that has several of them in ten minutes is counted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tenantry.model.changes import Change
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Ready, Stalled, Verdict, Waiting

MOST = 30
"""Passes without a change within an hour that are in order, with those of the usual resync among them."""
RESYNC_S = 600.0
SLICE_S = 600
SLICES = 6
"""The hour is counted in slices of ten minutes; the present one is one of them."""
SUSPECT = 4
"""Passes within one slice from which on an object is counted by name: the usual resync makes one."""
BUCKETS = 1 << 16


def is_idle(verdict: Verdict | None, changes: Sequence[Change], *, wrote: bool) -> bool:
    """Return True for a pass that changed nothing, and that nobody planned. wrote: it wrote the status.

    A retry after a failure and a look at a given time are planned.
    """
    if changes or wrote:
        return False
    return isinstance(verdict, Ready | Stalled) or (isinstance(verdict, Waiting) and verdict.until is None)


def planned_beyond(resync_s: float) -> int:
    """Return the passes within an hour that a resync makes beyond those of the usual one."""
    return max(0, round(SLICES * SLICE_S / resync_s) - round(SLICES * SLICE_S / RESYNC_S))


def is_hot(passes: Sequence[int], planned: int = 0) -> bool:
    """Return True for too many passes. passes: of each slice of the last hour; planned: see planned_beyond."""
    return sum(passes) > MOST + planned


def has_cooled(passes: Sequence[int], planned: int = 0) -> bool:
    """Return True for so few passes that the loop has ended: one that is just too fast would else come and go."""
    return sum(passes) <= MOST // 2 + planned


def is_forgotten(passes: Sequence[int], suspect: int = SUSPECT) -> bool:
    """Return True if no slice of the hour had as many passes as a suspect has."""
    return max(passes) < suspect


@dataclass
class _Counted:
    """The passes over one generation of one object, by slice, the present one last."""

    uid: str
    generation: int
    passes: list[int] = field(default_factory=list)
    hot: bool = False


class HotObjects:
    """Counts passes that changed nothing. A new generation, or another object with the same name, starts at zero.

    An object may be counted short by up to three passes for each slice in which it was no suspect.
    """

    def __init__(self, now: Callable[[], datetime], resync_s: float = RESYNC_S) -> None:
        """resync_s: how often each object is reconciled without a change."""
        self._now = now
        self._planned = planned_beyond(resync_s)
        self._suspects = min(SUSPECT + self._planned // SLICES, 255)
        self._slice = self._number()
        self._few = bytearray(BUCKETS)
        self._counted: dict[Ref, _Counted] = {}
        self._cooled: list[Ref] = []

    def __len__(self) -> int:
        """The objects that are counted by name."""
        return len(self._counted)

    def holds(self, key: Ref, uid: str, generation: int) -> bool:
        """Return True while that object is hot."""
        counted = self._counted.get(key)
        return counted is not None and counted.hot and (counted.uid, counted.generation) == (uid, generation)

    def idle(self, key: Ref, uid: str, generation: int) -> bool:
        """Count a pass that changed nothing. Return True if it makes the object hot."""
        self._advance()
        counted = self._counted.get(key)
        if counted is None or (counted.uid, counted.generation) != (uid, generation):
            self._counted.pop(key, None)
            if not self._suspect(hash((uid, generation)) % BUCKETS):
                return False
            counted = self._counted[key] = _Counted(uid, generation, [self._suspects])
        else:
            counted.passes[-1] += 1
        became = not counted.hot and is_hot(counted.passes, self._planned)
        counted.hot = counted.hot or became
        return became

    def forget(self, key: Ref) -> None:
        """The object is gone."""
        self._counted.pop(key, None)

    def take_cooled(self) -> tuple[Ref, ...]:
        """Return the objects that are not hot any more, once."""
        self._advance()
        cooled, self._cooled = tuple(self._cooled), []
        return cooled

    def _suspect(self, bucket: int) -> bool:
        few = self._few[bucket] = min(self._few[bucket] + 1, self._suspects)
        return few == self._suspects

    def _advance(self) -> None:
        """Begin a new slice if it is time."""
        number = self._number()
        if number == self._slice:
            return
        empty = [0] * min(max(number - self._slice, 1), SLICES)
        self._slice = number
        self._few = bytearray(BUCKETS)
        for key, counted in tuple(self._counted.items()):
            counted.passes = [*counted.passes, *empty][-SLICES:]
            if counted.hot and has_cooled(counted.passes, self._planned):
                counted.hot = False
                self._cooled.append(key)
            if not counted.hot and is_forgotten(counted.passes, self._suspects):
                del self._counted[key]

    def _number(self) -> int:
        return int(self._now().timestamp() // SLICE_S)
