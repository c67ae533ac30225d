"""Passwords: argon2id in threads of its own, which engines share fairly: sign-ins neither exhaust memory nor starve the loop."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from tenantry.model.facts import Password
from tenantry.model.verdicts import Invalid, Problem
from tenantry.rest.fairness.lanes import PASSWORD_SHARING, Lanes

SHORTEST, LONGEST = 8, 1024
# OWASP's second recommendation for argon2id: 19 MiB, two passes, one lane.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, type=Type.ID)
COSTLIEST = PasswordHasher(time_cost=10, memory_cost=65536, parallelism=4)
"""The most that a hash made elsewhere may cost."""
REMEMBERED_S = 60.0
"""The time that a matching password is remembered without hashing it again."""
_MOST_REMEMBERED = 10_000
_LANES = Lanes(PASSWORD_SHARING, "argon2")
# Verified in place of the hash of an unknown user, so that the answer takes as long. Of a random text that was thrown away;
# written down, because a hash takes 40 ms of each start.
_NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$atfYlsCir6e8ESU50zGS3A$HeUco/c8Hgol8bLHZ01eo7PEn+Q7n4V0oph9uRvYbLQ"


async def hash_password(password: Password, field: str = "password", sharer: str = "") -> str:
    """The argon2id hash to store; a hash that is handed over is taken as it is. Raises Invalid.

    sharer: whose part of the threads it takes, such as an engine.
    """
    check_password(password, field)
    if password.hash:
        return password.hash
    return await _LANES.lane(sharer, "").run(lambda: _HASHER.hash(password.clear))


def check_password(password: Password, field: str = "password") -> None:
    """Raise Invalid for a text of the wrong length, and for a hash that is malformed or costs too much."""
    if password.hash:
        _check_hash(password.hash, field)
    elif not SHORTEST <= len(password.clear) <= LONGEST:
        raise Invalid((Problem(field, f"must have {SHORTEST} to {LONGEST} characters"),))


async def verify_password(stored: str | None, clear: str, sharer: str = "") -> bool:
    """Return True if `clear` matches. None: the user is unknown; the answer takes as long as for a known one.

    sharer: the owner of the share of threads, such as an engine.
    """
    if stored and _REMEMBERED.knows(stored, clear):
        return True
    matches = await _LANES.lane(sharer, "").run(lambda: _matches_now(stored, clear))
    if stored and matches:
        _REMEMBERED.add(stored, clear)
    return matches and bool(stored)


def _matches_now(stored: str | None, clear: str) -> bool:
    # While it waited in line, the same password may have matched for another request.
    return bool(stored and _REMEMBERED.knows(stored, clear)) or _matches(stored or _NOBODY, clear[: LONGEST + 1])


def is_remembered(stored: str, clear: str) -> bool:
    """Return True if this password matched this very hash a short time ago. False says nothing about the password."""
    return _REMEMBERED.knows(stored, clear)


class Remembered:
    """Passwords that matched a short time ago, as keyed digests: a client with HTTP Basic sends its own with each request."""

    def __init__(self, seconds: float = REMEMBERED_S, most: int = _MOST_REMEMBERED) -> None:
        self._seconds, self._most = seconds, most
        self._key = secrets.token_bytes(32)
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def knows(self, stored: str, clear: str) -> bool:
        """Return True if this password matched this very hash."""
        return self._until.get(self._digest(stored, clear), 0.0) > time.monotonic()

    def add(self, stored: str, clear: str) -> None:
        """It did now."""
        digest = self._digest(stored, clear)
        self._until[digest] = time.monotonic() + self._seconds
        self._until.move_to_end(digest)
        while len(self._until) > self._most:
            self._until.popitem(last=False)

    def _digest(self, stored: str, clear: str) -> bytes:
        return hashlib.blake2b(f"{stored}\0{clear}".encode(errors="surrogatepass"), key=self._key, digest_size=32).digest()


_REMEMBERED = Remembered()


def needs_rehash(stored: str) -> bool:
    """Return True if the hash has weaker parameters than today's."""
    return _HASHER.check_needs_rehash(stored)


def _check_hash(stored: str, field: str) -> None:
    try:
        parameters = extract_parameters(stored)
    except InvalidHashError:
        raise Invalid((Problem(field, "must be an argon2id hash"),)) from None
    if parameters.type is not Type.ID:
        raise Invalid((Problem(field, "must be an argon2id hash"),))
    # Every sign-in pays for it: who hands over a hash must not be able to make one that costs a gigabyte.
    if (
        parameters.memory_cost > COSTLIEST.memory_cost
        or parameters.time_cost > COSTLIEST.time_cost
        or parameters.parallelism > COSTLIEST.parallelism
    ):
        most = f"{COSTLIEST.memory_cost} KiB, {COSTLIEST.time_cost} passes and {COSTLIEST.parallelism} lanes"
        raise Invalid((Problem(field, f"is an argon2id hash that costs more than {most}"),))


def _matches(stored: str, clear: str) -> bool:
    try:
        return _HASHER.verify(stored, clear)
    except (VerifyMismatchError, VerificationError, InvalidHashError):
        return False
