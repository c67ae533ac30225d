"""The host to which a client sent a request, as its Host header says."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address

from starlette.types import Scope

_HOST = re.compile(rb"(?:([a-z0-9._-]{1,253})|\[([0-9a-f:.]{2,45})\])(?::[0-9]{0,5})?", re.IGNORECASE)
LONGEST = 253 + len(":65535")
"""Bytes of a Host header. Longer ones name no host, and are not kept."""


def host_of(scope: Scope) -> str:
    """Return the host of a request: a name in lower case or an IP address, without brackets and port.

    It is `""` if the header is missing or malformed, so it never equals the host of anything.
    """
    header = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return _read(header) if len(header) <= LONGEST else ""


@lru_cache(maxsize=256)  # few names lead to a server, and each request has one
def _read(header: bytes) -> str:
    found = _HOST.fullmatch(header)
    if found is None:
        return ""
    name, address = found[1], found[2]
    if name is not None:
        return str(name, "ascii").lower()
    try:
        return str(IPv6Address(str(address, "ascii")))
    except ValueError:
        return ""
