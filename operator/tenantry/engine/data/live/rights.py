"""The rights of those who listen, looked up again while they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from tenantry.engine.data.live.listeners import Listener
from tenantry.model.verdicts import Forbidden, Halt, NotFound, Unauthorized

_log = structlog.get_logger(__name__)
AGAIN_S = 2.0
"""Seconds between two looks."""
UNKNOWN_S = 30.0
"""Seconds that a listener stays while its rights cannot be looked up."""
AT_ONCE = 4
Look = Callable[[], Awaitable[object]]
"""Looks a caller's rights up. Raises Unauthorized, Forbidden or NotFound for one who has none any more, and other Halts."""


@dataclass(eq=False)
class _Group:
    """Listeners who signed in with the same credentials, to the same table."""

    look: Look
    seen: float
    listeners: set[Listener] = field(default_factory=set)

    async def check(self) -> None:
        try:
            await self.look()
        except (Unauthorized, Forbidden, NotFound) as halt:
            self._end(halt.told)
        except Halt as halt:
            self._end_late(halt.told)
        except Exception:
            self._end_late("the rights cannot be looked up")
            raise
        else:
            self.seen = time.monotonic()

    def _end_late(self, reason: str) -> None:
        if time.monotonic() - self.seen > UNKNOWN_S:
            self._end(reason)

    def _end(self, reason: str) -> None:
        for listener in self.listeners:
            listener.end(reason)


class ListenerRights:
    """Looks up the rights of all who listen to an engine, once for each credentials and table. Belongs to one event loop."""

    def __init__(self) -> None:
        self._groups: dict[bytes, _Group] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, key: bytes, look: Look, listener: Listener) -> None:
        """Watch the rights of a listener. key: of its credentials and table."""
        group = self._groups.setdefault(key, _Group(look, time.monotonic()))
        group.listeners.add(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def remove(self, key: bytes, listener: Listener) -> None:
        """Watch it no longer."""
        group = self._groups.get(key)
        if group is not None:
            group.listeners.discard(listener)
            if not group.listeners:
                del self._groups[key]
        if not self._groups and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def check(group: _Group) -> None:
            async with places:
                await group.check()

        while True:
            await asyncio.sleep(AGAIN_S)
            for failed in await asyncio.gather(*map(check, list(self._groups.values())), return_exceptions=True):
                if failed is not None:  # a bug of one look must not keep the others from being made
                    _log.error("rights.failed", exc_info=failed)
