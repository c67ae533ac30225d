"""One-time codes: `tenantry up` prints an address with one, which signs in the local SUPERUSER."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from tenantry.model.verdicts import Unauthorized

LIFE = timedelta(minutes=10)
KEPT = 20
"""Codes that are valid at one time, at most: the oldest gives way."""


class Code(NamedTuple):
    """user, uid: the name of the User that it signs in, and the incarnation that was meant."""

    user: str
    uid: str
    ends: datetime


class OneTimeCodes:
    """Codes of this process, each valid once and for 10 minutes. Only their hashes are kept."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._codes: dict[bytes, Code] = {}

    def issue(self, user: str, uid: str) -> str:
        """A new code for that User."""
        code = secrets.token_urlsafe(24)
        while len(self._codes) >= KEPT:
            self._codes.pop(next(iter(self._codes)))
        self._codes[_hash(code)] = Code(user, uid, self._now() + LIFE)
        return code

    def redeem(self, code: str) -> Code:
        """Take a code: it counts once. Raises Unauthorized for one that is unknown, used or too old."""
        held = self._codes.pop(_hash(code), None)
        if held is None or held.ends <= self._now():
            raise Unauthorized("the code was used already, or is older than 10 minutes")
        return held


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="surrogatepass")).digest()
