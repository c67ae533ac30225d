"""Background work that is kept running: what fails is restarted with backoff, and is listed until it runs well again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from tenantry.model.resource import format_time
from tenantry.model.verdicts import Halt, described
from tenantry.model.wording import counted
from tenantry.runtime.reconcile.loop import FIRST_RETRY, LAST_RETRY

RECOVERED_S = 60.0
"""Work that has run for so long without failing has recovered."""

Works = dict[str, Callable[[], Awaitable[None]]]
"""Work by its name."""

log = structlog.get_logger(__name__)


@dataclass
class _Work:
    """One piece of work. failures: in a row; fault: the last one as a sentence, `""` while all is well."""

    failures: int = 0
    fault: str = ""


class Supervisor:
    """Runs work that has no end of its own. A return counts as a failure, too."""

    def __init__(self, first_s: float = FIRST_RETRY, last_s: float = LAST_RETRY, recovered_s: float = RECOVERED_S) -> None:
        """first_s, last_s: the shortest and the longest pause before a restart."""
        self._first_s, self._last_s, self._recovered_s = first_s, last_s, recovered_s
        self._works: dict[str, _Work] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def faults(self) -> tuple[str, ...]:
        """The work that has failed and has not recovered yet, as `<name>: <why>`."""
        return tuple(f"{name}: {work.fault}" for name, work in self._works.items() if work.fault)

    def fails(self, name: str) -> bool:
        """Return True if that work has failed and has not recovered yet."""
        return name in self._works and self._works[name].fault != ""

    def run(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Starts work, and starts it again whenever it fails."""
        self._works[name] = _Work()
        self._tasks.append(asyncio.create_task(self._keep(work, name), name=name))

    async def stop(self) -> None:
        """Ends all of it."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._works.clear()

    async def _keep(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        known, loop = self._works[name], asyncio.get_running_loop()
        while True:
            recovery = loop.call_later(self._recovered_s, _recovered, known, name)
            try:
                await work()
                why = "it ended by itself"
                log.error("background work ended", work=name)
            except Halt as halt:
                why = str(halt)
                log.error("background work failed", work=name, error=why)
            except Exception as error:
                why = str(error) if isinstance(error, OSError) else described(error)
                log.exception("background work failed", work=name, error=repr(error))
            finally:
                recovery.cancel()
            known.failures += 1
            known.fault = f"failed {counted(known.failures, 'time')}, last at {format_time(_now())}: {why}; it is restarted"
            pause = min(self._last_s, self._first_s * 2.0 ** min(known.failures - 1, 20))
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret


@asynccontextmanager
async def supervised() -> AsyncIterator[Supervisor]:
    """A Supervisor whose work ends with the block."""
    supervisor = Supervisor()
    try:
        yield supervisor
    finally:
        await supervisor.stop()


async def until_first(*works: asyncio.Task[None]) -> None:
    """Runs until one of them ends, and ends the others. Raises what ended it."""
    try:
        ended, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
    for work in ended:
        work.result()


def _recovered(work: _Work, name: str) -> None:
    if work.failures:
        log.info("background work has recovered", work=name)
    work.failures, work.fault = 0, ""


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
