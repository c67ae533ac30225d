"""Limits of requests that hold over all replicas of a pool: each publishes what is asked at it, and admits its share."""

from __future__ import annotations

import asyncio

import structlog

from tenantry.adapters.pools.shared.asked_rates import AskedRates
from tenantry.adapters.pools.shared.buckets import SharedBuckets
from tenantry.adapters.pools.shared.short_statements import StatementThread
from tenantry.model.verdicts import Halt

PAUSE_S, LONGEST_PAUSE_S = 1.0, 3.0
"""Seconds between two exchanges. With the longest pause, the rates of the others still count."""
WORK = 0.05
"""The part of the time that exchanges may take, up to the longest pause: those of very many engines come less often."""
REST_S = 30.0
"""Seconds between two exchanges while there is nothing to publish: the others count this replica."""
HOLDS_S = 10.0
"""Seconds for which shares hold while the pool's database does not answer."""
SWEEP_S = 60.0
log = structlog.get_logger(__name__)


class SharedRates:
    """RequestRates of one replica. No request waits for the database."""

    def __init__(self, table: AskedRates, here: SharedBuckets | None = None) -> None:
        """here: the buckets of this replica."""
        self._table = table
        self._here = here if here is not None else SharedBuckets()
        self._thread = StatementThread(table, "requests")
        self._heard = -REST_S
        self._answers = True
        self._pause = PAUSE_S
        """Seconds until the next exchange."""

    def take(self, key: str, per_second: int) -> float:
        """As RequestRates. key: the id of an engine."""
        return self._here.take(key, per_second)

    async def run(self) -> None:
        """Exchange again and again, without end."""
        loop = asyncio.get_running_loop()
        swept = loop.time()
        while True:
            try:
                await self.refresh()
                if loop.time() - swept > SWEEP_S:
                    swept = loop.time()
                    self._here.forget()
            except Exception:
                log.exception("the requests of the pool cannot be shared")
            await asyncio.sleep(self._pause)

    async def refresh(self) -> None:
        """Exchange once, if there is something to publish."""
        now = asyncio.get_running_loop().time
        begun, asked = now(), self._here.asked()
        if not asked and self._answers and begun - self._heard < REST_S:
            return
        try:
            others = await self._thread.ask(lambda: self._table.exchange(asked))
        except (Halt, TimeoutError) as error:
            if self._answers:
                log.warning("this replica shares no limits of requests: the pool's database does not answer", error=str(error))
            self._answers = False
            self._here.lose(held=now() - self._heard < HOLDS_S)
            return
        self._heard, self._answers = now(), True
        self._here.learn(asked, others.asked, others.replicas + 1)
        self._pause = min(max(PAUSE_S, (now() - begun) / WORK), LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Let the connection go."""
        await self._thread.close()
