"""The connections that a server holds: one address has its part of them, and idle ones make room for others."""

from __future__ import annotations

import resource
from collections import OrderedDict
from typing import Protocol

from tenantry.settings import HttpSettings

MOST_PARTING = 256
"""Connections that read that there is no room for them. They are beyond the limits, and live for a second."""


class HeldConnection(Protocol):
    """A connection."""

    @property
    def idle(self) -> bool:
        """Return True if it waits for a request."""

    def end(self) -> None:
        """Closes it at once."""


class Connections:
    """The connections of one server, by the address of their client; those that came first stand first."""

    def __init__(self, limits: HttpSettings) -> None:
        self._limits = limits
        # Half of the open files are left to databases and packages.
        self._most = min(limits.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2)
        self._by_address: dict[str, OrderedDict[HeldConnection, None]] = {}
        self._count = 0
        self._parting = 0

    def enter(self, address: str, connection: HeldConnection) -> bool:
        """Takes a connection; False where there is no room, which only connections in use can bring about."""
        own = self._by_address.get(address, ())
        if len(own) >= self._limits.per_address and not _end_one(own):
            return False
        if self._count >= self._most and not self._make_room():
            return False
        self._by_address.setdefault(address, OrderedDict())[connection] = None
        self._count += 1
        return True

    def leave(self, address: str, connection: HeldConnection) -> None:
        """It is closed."""
        own = self._by_address.get(address)
        if own is None or connection not in own:
            return
        del own[connection]
        self._count -= 1
        if not own:
            del self._by_address[address]

    def part(self) -> bool:
        """Take note of one that there is no room for, and that reads so; False where too many do."""
        if self._parting >= MOST_PARTING:
            return False
        self._parting += 1
        return True

    def parted(self) -> None:
        """It is closed."""
        self._parting -= 1

    def _make_room(self) -> bool:
        """Ends an idle connection of the address that holds most."""
        return any(_end_one(own) for own in sorted(self._by_address.values(), key=len, reverse=True))


def _end_one(connections: OrderedDict[HeldConnection, None] | tuple[()]) -> bool:
    idle = next((each for each in connections if each.idle), None)
    if idle is not None:
        idle.end()
    return idle is not None


def raise_file_limit() -> None:
    """As many open files as the system allows this process: each connection is one, and each engine in use holds a few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
