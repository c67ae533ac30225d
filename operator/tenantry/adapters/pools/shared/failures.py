"""Failed sign-ins that all replicas of a pool count together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from tenantry.adapters.pools.shared.guesses import GuessTable, Looked
from tenantry.adapters.pools.shared.short_statements import StatementThread
from tenantry.model.verdicts import Halt
from tenantry.rest.auth.failures import Admitted, Guesser, ProcessCounts

T = TypeVar("T")
PAUSE_S = 1.0
"""Seconds between two looks at what other replicas counted."""
SWEEP_S = 60.0
log = structlog.get_logger(__name__)


class SharedCounts:
    """FailureCounts of one replica.

    A sign-in asks the database only if its engine had failures of late. While the database does not answer, this replica goes on
    with what it knows: if sign-ins stopped with it, one database would be an outage of all engines.
    """

    def __init__(self, table: GuessTable, here: ProcessCounts | None = None) -> None:
        """here: what this replica knows."""
        self._table = table
        self._here = here if here is not None else ProcessCounts()
        self._thread = StatementThread(table, "sign-ins")
        self._answers = True

    def wait(self, who: Guesser) -> float:
        return self._here.wait(who)

    async def admit(self, who: Guesser) -> Admitted:
        wait, guessed = self._here.wait(who), self._table.guessed
        if wait > 0 or (guessed is not None and who.realm not in guessed):
            return Admitted(wait)
        known = self._here.knows(who)
        looked = await self._ask(lambda: self._table.claim(who, known=known))
        if looked is None:
            return Admitted()
        self._learn(who, looked)
        if looked.before is not None:
            return Admitted(0.0, looked.before, looked.name)
        return Admitted(self._here.wait(who))

    async def failed(self, who: Guesser, admitted: Admitted) -> None:
        looked = await self._ask(lambda: self._table.count(who, counted=admitted.counted is not None))
        if looked is None:
            await self._here.failed(who, admitted)
        else:
            self._learn(who, looked)

    async def succeeded(self, who: Guesser, admitted: Admitted) -> None:
        await self._here.succeeded(who, admitted)
        if admitted.counted is not None:
            await self._ask(lambda: self._table.forget(who))

    async def released(self, who: Guesser, admitted: Admitted) -> None:
        before, counted = admitted.before, admitted.counted
        if before is not None and counted is not None:
            await self._ask(lambda: self._table.release(who, before, counted))
            self._here.learn(who.name, None, 0.0)

    async def run(self) -> None:
        """Look again and again, without end."""
        loop = asyncio.get_running_loop()
        swept = loop.time()
        while True:
            try:
                await self.refresh()
                if loop.time() - swept > SWEEP_S:
                    swept = loop.time()
                    await self._thread.ask(self._table.sweep)
            except (Halt, TimeoutError) as error:
                self._missed(error)
            except Exception:
                log.exception("the failed sign-ins of the pool cannot be read")
            await asyncio.sleep(PAUSE_S)

    async def refresh(self) -> None:
        """Return when this replica knows what the others counted before. Raises Halt, TimeoutError."""
        found = await self._thread.ask(self._table.waiting)
        for key, tally in found.tallies:
            self._here.learn(key, tally, found.now)
        self._answers = True

    async def close(self) -> None:
        """Let the connection go."""
        await self._thread.close()

    async def _ask(self, ask: Callable[[], T]) -> T | None:
        """Return the answer of the database, None if there is none. The next look of `run` finds if it answers again."""
        if not self._answers:
            return None
        try:
            return await self._thread.ask(ask)
        except (Halt, TimeoutError) as error:
            self._missed(error)
            return None

    def _missed(self, error: Exception) -> None:
        if self._answers:
            log.warning("this replica counts failed sign-ins for itself: the pool's database does not answer", error=str(error))
        self._answers = False

    def _learn(self, who: Guesser, looked: Looked) -> None:
        self._here.learn(who.name, looked.name, looked.now)
        self._here.learn(who.place, looked.place, looked.now)
