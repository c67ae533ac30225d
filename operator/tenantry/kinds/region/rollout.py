"""The order of engine restarts in a Region, when a release of the platform changes their pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import NamedTuple

from tenantry.kinds.region.spec import RolloutRules, Window
from tenantry.model.wording import and_more

LOOKS_AGAIN = timedelta(seconds=1)


class Name(NamedTuple):
    """An Environment."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Turn:
    """An Environment whose turn it is. failed: its engine does not come up, or nobody may restart it."""

    name: Name
    protected: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Waves:
    """The Environments of a Region whose engines are to restart, by how far they are.

    down: wait, and their engines do not run; early, protected: wait, and their engines run. complete: are these all? Just after
    a start not every engine has been looked at.
    """

    turns: tuple[Turn, ...] = ()
    down: tuple[Name, ...] = ()
    early: tuple[Name, ...] = ()
    protected: tuple[Name, ...] = ()
    complete: bool = True

    @property
    def waiting(self) -> int:
        return len(self.down) + len(self.early) + len(self.protected)


@dataclass(frozen=True)
class Wave:
    """granted: whose turn it is from now on. held: why no other engine that runs is restarted now, `""` where none is held up;
    until: when to look again.
    """

    granted: tuple[Name, ...] = ()
    held: str = ""
    until: datetime | None = None


def next_wave(rules: RolloutRules, waves: Waves, now: datetime) -> Wave:
    """Engines that do not run first, for nobody misses them; then those that are not to be last; those only once all others run.

    A failure holds up all that run. The turn of one that failed is free for those that do not run: a release that mends it.
    """
    failed = [each.name for each in waves.turns if each.failed]
    busy = [each for each in waves.turns if not each.failed]
    free = max(0, rules.at_once - len(busy))
    down = tuple(sorted(waves.down)[:free])
    if not waves.early and not waves.protected:
        return Wave(down)
    if failed and rules.pause_on_failure:
        return Wave(down, f"paused: the engine of {_named(failed)} did not start")
    opens = opens_at(rules.window, now)
    if opens is not None:
        return Wave(down, f"waits for its window, which opens at {opens:%Y-%m-%dT%H:%MZ}", opens)
    last = frozenset(rules.last or ())
    early = [each for each in waves.early if each.name not in last]
    late = [each for each in waves.early if each.name in last]
    if not early and not waves.complete:
        return Wave(down, "looks at every engine before the last ones restart", now + LOOKS_AGAIN)
    chosen = early or _last_ones(late, waves, [each for each in busy if not each.protected], last)
    return Wave((*down, *sorted(chosen)[: free - len(down)]))


def _last_ones(late: list[Name], waves: Waves, busy: list[Turn], last: frozenset[str]) -> list[Name]:
    """Return the next ones after all others: those named last when all others run, and protected ones when these run too."""
    if waves.down or any(each.name.name not in last for each in busy):
        return []
    return late or ([] if busy else [*waves.protected])


def opens_at(window: Window | None, now: datetime) -> datetime | None:
    """Return the time at which the window opens, None while it is open."""
    if window is None:
        return None
    starts = tuple(_starts(window, now))
    if any(start <= now < start + timedelta(hours=window.hours) for start in starts):
        return None
    return min(start for start in starts if start > now)


def _starts(window: Window, now: datetime) -> Iterable[datetime]:
    """The starts from yesterday to a week from now."""
    hour, minute = map(int, window.start.split(":"))
    for day in range(-1, 8):
        start = datetime.combine(now.date() + timedelta(days=day), time(hour, minute), now.tzinfo)
        if window.days is None or start.strftime("%a") in window.days:
            yield start


def _named(names: list[Name]) -> str:
    return and_more([f"{each.namespace}/{each.name}" for each in sorted(names)])
