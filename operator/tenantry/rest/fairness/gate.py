"""Turns of tenants at an event loop: many requests of one tenant at once do not go before one request of another."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

AT_ONCE = 1
"""Requests that begin in one round of the loop while others wait. Whatever else arrives waits for no more than these."""
FIRSTS = 4
"""Tenants whose first request in a round begins in it: who asks rarely does not wait for the next."""
BETWEEN_RESTS, REST_S = 4, 0.001
"""Requests after which the loop rests while others wait, and the seconds that it rests."""

MIXED_S = 1.0
"""Seconds after a request of another tenant in which there are turns: who is alone does not wait."""


class Gate:
    """Lets requests begin, some in each round of the event loop, of one tenant after the other. Belongs to one loop."""

    def __init__(self, at_once: int = AT_ONCE, rest_s: float = REST_S) -> None:
        self._at_once, self._rest_s = at_once, rest_s
        self._begun = 0
        self._firsts: set[str] = set()
        """The tenants of which a request has begun in this round."""
        self._since_rest = 0
        self._counting = False
        self._latest = ""
        self._mixed_until = 0.0
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def turn(self, tenant: str) -> None:
        """Return when a request of the tenant may begin: at once, as long as few do."""
        if not self.begins_now(tenant):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._lines.setdefault(tenant, deque()).append(turn)
            await turn

    def begins_now(self, tenant: str) -> bool:
        """Return True if a request of the tenant begins now. Otherwise it has to wait for its turn."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if tenant != self._latest:
            self._latest, self._mixed_until = tenant, now + MIXED_S
        if now >= self._mixed_until and not self._lines:
            return True
        if not self._counting:
            self._counting = True
            loop.call_soon(self._round)
        if not self._may_begin(tenant):
            return False
        self._begun += 1
        self._firsts.add(tenant)
        return True

    def _may_begin(self, tenant: str) -> bool:
        if tenant not in self._firsts and tenant not in self._lines:
            return len(self._firsts) < FIRSTS
        return self._begun < self._at_once and not self._lines

    def _round(self) -> None:
        self._begun = 0
        self._firsts.clear()
        while self._lines and self._begun < self._at_once:
            tenant, line = self._lines.popitem(last=False)
            turn = line.popleft()
            if line:
                self._lines[tenant] = line
            if not turn.done():  # its caller may have left
                turn.set_result(None)
                self._begun += 1
                self._firsts.add(tenant)
        self._since_rest += self._begun
        loop = asyncio.get_running_loop()
        if self._lines and self._rest_s and self._since_rest >= BETWEEN_RESTS:
            # The loop rests for a moment: threads that work for others cannot run while it computes.
            self._since_rest = 0
            loop.call_later(self._rest_s, self._round)
        elif self._lines or self._begun:
            loop.call_soon(self._round)
        else:
            self._counting = False
