"""Passwords: argon2id in a bounded pool, so that sign-ins can neither exhaust memory nor starve the loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from tenantry.model.facts import Password
from tenantry.model.verdicts import Invalid, Problem

SHORTEST, LONGEST = 8, 1024
# OWASP's second recommendation for argon2id: 19 MiB, two passes, one lane.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, type=Type.ID)
COSTLIEST = PasswordHasher(time_cost=10, memory_cost=65536, parallelism=4)
"""The most that a hash made elsewhere may cost."""
_POOL = ThreadPoolExecutor(2, thread_name_prefix="argon2")
# Verified in place of the hash of an unknown user, so that the answer takes as long.
_NOBODY = _HASHER.hash("nobody's password")


async def hash_password(password: Password, field: str = "password") -> str:
    """The argon2id hash to store; a hash that is handed over is taken as it is. Raises Invalid."""
    if password.hash:
        _check_hash(password.hash, field)
        return password.hash
    if not SHORTEST <= len(password.clear) <= LONGEST:
        raise Invalid((Problem(field, f"must have {SHORTEST} to {LONGEST} characters"),))
    return await asyncio.get_running_loop().run_in_executor(_POOL, _HASHER.hash, password.clear)


async def verify_password(stored: str | None, clear: str) -> bool:
    """Does `clear` match? None: the user is unknown; the answer takes as long as for a known one."""
    matches = await asyncio.get_running_loop().run_in_executor(_POOL, _matches, stored or _NOBODY, clear[: LONGEST + 1])
    return matches and bool(stored)


def needs_rehash(stored: str) -> bool:
    """Was it hashed with weaker parameters than today's?"""
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
