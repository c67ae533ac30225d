"""Counts of failed sign-ins, of a username from an address and of an address. One rule for all who keep such counts."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")
FREE = 5
"""Failures of one username from one address before it must wait."""
LONGEST_WAIT_S = 30.0
FORGOTTEN_S = 900.0
"""Failures that lie so far back do not count any more."""
BURST, RECOVERED_PER_S = 100, 1.0
"""Failures of one address, whatever the usernames: so many at once, and so many in a second after that."""
KEPT = 10_000
"""Usernames with addresses, and addresses, that a process remembers; those seen longest ago are forgotten first."""
NEVER = -math.inf


class Guesser(NamedTuple):
    """A sender of passwords. realm: what the username belongs to; name, place: keyed hashes of the username with the address, and
    of the address."""

    realm: str
    name: bytes
    place: bytes


class Tally(NamedTuple):
    """Failures of late. last: the time of the last one; until: no attempt before that. Seconds of one clock."""

    failures: int = 0
    last: float = NEVER
    until: float = NEVER

    def moved(self, seconds: float) -> Tally:
        """The same on another clock, which is ahead by so much."""
        return Tally(self.failures, self.last + seconds, self.until + seconds)


def of_name(held: Tally, now: float) -> Tally:
    """Return the tally of a username from an address after one more failure."""
    failures = held.failures + 1 if now - held.last < FORGOTTEN_S else 1
    if failures < FREE:
        return Tally(failures, now, held.until)
    return Tally(failures, now, now + min(2.0 ** min(failures - FREE, 10), LONGEST_WAIT_S))


def of_place(held: Tally, now: float) -> Tally:
    """Return the tally of an address after one more failure."""
    all_recovered = now - (BURST - 1) / RECOVERED_PER_S
    return Tally(held.failures + 1, now, max(held.until, all_recovered) + 1 / RECOVERED_PER_S)


class Admitted(NamedTuple):
    """The answer to an attempt. wait: seconds until it may be made, 0 if it may be made now.

    counted: the tally of the username with this attempt, if it counts as a failure until it succeeds; before: the one without.
    """

    wait: float = 0.0
    before: Tally | None = None
    counted: Tally | None = None


class FailureCounts(Protocol):
    """Counts of failed sign-ins. After `admit` without a wait, one of the other three follows."""

    def wait(self, who: Guesser) -> float:
        """Return the seconds until the next attempt, as far as this process knows; 0 if it may be made now."""

    async def admit(self, who: Guesser) -> Admitted:
        """Return if an attempt may be made now."""

    async def failed(self, who: Guesser, admitted: Admitted) -> None:
        """Count a failure."""

    async def succeeded(self, who: Guesser, admitted: Admitted) -> None:
        """Forget the failures of that username from that address."""

    async def released(self, who: Guesser, admitted: Admitted) -> None:
        """Count nothing: the password was not looked at."""


class ProcessCounts:
    """FailureCounts of one process, in memory: they are bounded, and a restart forgets them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tallies: OrderedDict[bytes, Tally] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Those who have signed in since the process began."""

    def knows(self, who: Guesser) -> bool:
        """Return True if that username has signed in from that address. It does not wait for what others do there."""
        return who.name in self._known

    def wait(self, who: Guesser) -> float:
        now = self._clock()
        waited_for = (who.name,) if self.knows(who) else (who.name, who.place)
        return max(0.0, *(self._tallies.get(key, Tally()).until - now for key in waited_for))

    async def admit(self, who: Guesser) -> Admitted:
        return Admitted(self.wait(who))

    async def failed(self, who: Guesser, admitted: Admitted) -> None:
        now = self._clock()
        for key, rule in ((who.name, of_name), (who.place, of_place)):
            _keep(self._tallies, key, rule(self._tallies.get(key, Tally()), now), 2 * KEPT)

    async def succeeded(self, who: Guesser, admitted: Admitted) -> None:
        self._tallies.pop(who.name, None)
        _keep(self._known, who.name, None, KEPT)

    async def released(self, who: Guesser, admitted: Admitted) -> None:
        return

    def learn(self, key: bytes, tally: Tally | None, now: float) -> None:
        """Take what others counted: None, if they count no failure. now: the time on the clock of the tally."""
        if tally is None:
            self._tallies.pop(key, None)
        else:
            _keep(self._tallies, key, tally.moved(self._clock() - now), 2 * KEPT)


def _keep(kept: OrderedDict[bytes, T], key: bytes, value: T, most: int) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
