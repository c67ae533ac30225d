"""Sign-ins by password, held back where they fail: who guesses waits longer and longer, and no right password waits long."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tenantry.model.verdicts import Unauthorized
from tenantry.rest.auth.failures import LONGEST_WAIT_S, FailureCounts, Guesser, ProcessCounts

AT_ONCE = 1000
"""Sign-ins that may wait for their turn."""
TURNS = 4
"""Sign-ins under way: enough to keep the pool of argon2 busy, and hardly more than may fail before the first failure counts."""


@dataclass
class _Line:
    """Sign-ins of one realm that wait for their turn: those of one engine do not hold up another's."""

    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TURNS))
    waiting: int = 0


class Throttle:
    """Holds guesses back, by the failures of a username with an address, and of an address. Of both it keeps keyed hashes only.

    counts: where failures are counted, by default in this process. key: of the hashes; all who share counts have the same.
    """

    def __init__(self, counts: FailureCounts | None = None, key: bytes | None = None) -> None:
        self._counts = counts if counts is not None else ProcessCounts()
        self._key = key if key is not None else os.urandom(16)
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def attempt(self, realm: str, username: str, address: str) -> AsyncIterator[None]:
        """Around one look at a password; an Unauthorized that leaves the block counts. realm: what the username belongs to.

        Answers 429 with Retry-After to who has to wait, known or unknown, before the password is looked at.
        """
        line = self._lines.setdefault(realm, _Line())
        if line.waiting >= AT_ONCE:
            raise HTTPException(429, "too many sign-ins at once; try again shortly", {"Retry-After": "5"})
        who = self._guesser(realm, username, address)
        line.waiting += 1
        try:
            _refuse(self._counts.wait(who))
            async with line.turns:
                admitted = await self._counts.admit(who)  # others may have failed during the wait
                _refuse(admitted.wait)
                try:
                    yield
                except Unauthorized:
                    await self._counts.failed(who, admitted)
                    raise
                except Exception:
                    await self._counts.released(who, admitted)
                    raise
                await self._counts.succeeded(who, admitted)
        finally:
            line.waiting -= 1
            if not line.waiting:
                self._lines.pop(realm, None)

    def check(self, realm: str, username: str, address: str) -> None:
        """Answers 429 with Retry-After to who has to wait, as `attempt`, without an attempt."""
        _refuse(self._counts.wait(self._guesser(realm, username, address)))

    def _guesser(self, realm: str, username: str, address: str) -> Guesser:
        network = network_of(address)
        return Guesser(realm, self._hashed(realm, username.casefold(), network), self._hashed(realm, network))

    def _hashed(self, *parts: str) -> bytes:
        text = "\0".join(parts).encode(errors="surrogatepass")
        return hashlib.blake2b(text, key=self._key, digest_size=16).digest()


def _refuse(wait: float) -> None:
    if wait > 0:
        seconds = min(math.ceil(wait), int(LONGEST_WAIT_S))
        raise HTTPException(429, f"too many failed sign-ins; try again in {seconds} s", {"Retry-After": str(seconds)})


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
