"""Sign-ins by password, held back where they fail: who guesses waits longer and longer, and no right password waits long.

The state is of one process, and in memory: it is bounded, and a restart forgets it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import math
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tenantry.model.verdicts import Unauthorized

T = TypeVar("T")
FREE = 5
"""Failures of one username from one address before it must wait."""
LONGEST_WAIT_S = 30.0
FORGOTTEN_S = 900.0
"""Failures that lie so far back do not count any more."""
BURST, RECOVERED_PER_S = 100, 1.0
"""Failures of one address, whatever the usernames: so many at once, and so many in a second after that."""
KEPT = 10_000
"""Usernames with addresses, and addresses, that are remembered; those seen longest ago are forgotten first."""
AT_ONCE = 1000
"""Sign-ins that may wait for their turn."""
TURNS = 4
"""Sign-ins under way: enough to keep the pool of argon2 busy, and hardly more than may fail before the first failure counts."""


@dataclass
class _Guesses:
    """failures: of late; until: no attempt before; known: it has signed in since the process began."""

    failures: int = 0
    last: float = -math.inf
    until: float = -math.inf
    known: bool = False


@dataclass
class _Spent:
    """Failures of an address that have not been recovered from, as of `since`."""

    failures: float = 0.0
    since: float = -math.inf

    def at(self, now: float) -> float:
        return max(0.0, self.failures - (now - self.since) * RECOVERED_PER_S)


@dataclass
class _Line:
    """Sign-ins of one realm that wait for their turn: those of one engine do not hold up another's."""

    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TURNS))
    waiting: int = 0


class Throttle:
    """Counts failed sign-ins by username with address, and by address. Of both it keeps keyed hashes alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = os.urandom(16)
        self._guesses: OrderedDict[bytes, _Guesses] = OrderedDict()
        self._spent: OrderedDict[bytes, _Spent] = OrderedDict()
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def attempt(self, realm: str, username: str, address: str) -> AsyncIterator[None]:
        """Around one look at a password; an Unauthorized that leaves the block counts. realm: what the username belongs to.

        Answers 429 with Retry-After to who has to wait, known or unknown, before the password is looked at.
        """
        line = self._lines.setdefault(realm, _Line())
        if line.waiting >= AT_ONCE:
            raise HTTPException(429, "too many sign-ins at once; try again shortly", {"Retry-After": "5"})
        pair = self._hashed(realm, username.casefold(), network_of(address))
        place = self._hashed(realm, network_of(address))
        line.waiting += 1
        try:
            self._check(pair, place)
            async with line.turns:
                self._check(pair, place)  # others may have failed during the wait
                try:
                    yield
                except Unauthorized:
                    self._failed(pair, place)
                    raise
                self._succeeded(pair)
        finally:
            line.waiting -= 1
            if not line.waiting:
                self._lines.pop(realm, None)

    def check(self, realm: str, username: str, address: str) -> None:
        """Answers 429 with Retry-After to who has to wait, as `attempt`, without an attempt."""
        self._check(self._hashed(realm, username.casefold(), network_of(address)), self._hashed(realm, network_of(address)))

    def _check(self, pair: bytes, place: bytes) -> None:
        now = self._clock()
        guesses = self._guesses.get(pair, _Guesses())
        wait = guesses.until - now
        if not guesses.known:
            # Who has signed in from here does not wait for what others of the same address do.
            wait = max(wait, (self._spent.get(place, _Spent()).at(now) - BURST + 1) / RECOVERED_PER_S)
        if wait > 0:
            seconds = min(math.ceil(wait), int(LONGEST_WAIT_S))
            raise HTTPException(429, f"too many failed sign-ins; try again in {seconds} s", {"Retry-After": str(seconds)})

    def _failed(self, pair: bytes, place: bytes) -> None:
        now = self._clock()
        guesses = _renewed(self._guesses, pair, _Guesses())
        guesses.failures = guesses.failures + 1 if now - guesses.last < FORGOTTEN_S else 1
        guesses.last = now
        if guesses.failures >= FREE:
            guesses.until = now + min(2.0 ** min(guesses.failures - FREE, 10), LONGEST_WAIT_S)
        spent = _renewed(self._spent, place, _Spent())
        spent.failures, spent.since = spent.at(now) + 1, now

    def _succeeded(self, pair: bytes) -> None:
        guesses = _renewed(self._guesses, pair, _Guesses())
        guesses.failures, guesses.until, guesses.known = 0, -math.inf, True

    def _hashed(self, *parts: str) -> bytes:
        text = "\0".join(parts).encode(errors="surrogatepass")
        return hashlib.blake2b(text, key=self._key, digest_size=16).digest()


def _renewed(kept: OrderedDict[bytes, T], key: bytes, fresh: T) -> T:
    found = kept.pop(key, fresh)
    kept[key] = found
    if len(kept) > KEPT:
        kept.popitem(last=False)
    return found


def address_of(request: Request) -> str:
    """Return the address of the sender; `""` if the server does not know it."""
    return request.client.host if request.client else ""


def network_of(address: str) -> str:
    """The address as one attacker has it: whole of IPv4, the /64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
