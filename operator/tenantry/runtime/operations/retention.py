"""Retention of Operations: the newest of each object, tenant and platform, and for a time. Unfinished ones always stay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Held, held_of, parse_time
from tenantry.model.verdicts import Conflict, Forbidden, Halt, NotFound
from tenantry.ports import OperationLogs, Store
from tenantry.runtime.cache import Cache
from tenantry.runtime.pace import Pace

log = structlog.get_logger(__name__)

DELETIONS = ("DELETE_TENANT", "DELETE_ENVIRONMENT")


@dataclass(frozen=True)
class Keep:
    """age: finished Operations older than this go; the others: how many are kept. Those younger than `young` stay beyond
    per_target, so that each request finds the result of its own Operation.

    own: the number of those Tenants that declare one, by uid, in place of per_tenant.
    """

    age: timedelta = timedelta(days=30)
    per_target: int = 10
    per_tenant: int = 500
    total: int = 5000
    young: timedelta = timedelta(hours=1)
    own: Mapping[str, int] = field(default_factory=dict)


class FinishedOperation(NamedTuple):
    """A finished Operation, by the facts that decide how long it is kept. target, tenant: uids."""

    held: Held
    made: datetime
    action: str
    target: str
    tenant: str


def surplus(finished: Iterable[FinishedOperation], living: Collection[str], keep: Keep, now: datetime) -> list[FinishedOperation]:
    """Return the Operations to remove. living: the uids of existing objects.

    Deletions, and the last Operation of a living object, go after all others; they do not count against their target's own
    limit.
    """
    newest_first = sorted(finished, key=lambda one: one.made, reverse=True)
    precious = _precious(newest_first, living)
    targets: Counter[str] = Counter()
    tenants: Counter[str] = Counter()
    kept = 0
    removed = []
    for one in sorted(newest_first, key=lambda one: one.held.ref.name not in precious):
        age = now - one.made
        has_room = age <= keep.young or targets[one.target] < keep.per_target
        keeps = one.held.ref.name in precious or (age <= keep.age and has_room)
        if keeps and tenants[one.tenant] < keep.own.get(one.tenant, keep.per_tenant) and kept < keep.total:
            targets[one.target] += 1
            tenants[one.tenant] += 1
            kept += 1
        else:
            removed.append(one)
    return removed


def _precious(newest_first: Iterable[FinishedOperation], living: Collection[str]) -> set[str]:
    last: dict[str, str] = {}
    precious = set()
    for one in newest_first:
        if one.action in DELETIONS:
            precious.add(one.held.ref.name)
        if one.target in living:
            last.setdefault(one.target, one.held.ref.name)
    return precious | set(last.values())


def finished_ones(documents: Iterable[Document]) -> Iterator[FinishedOperation]:
    """Yield those of the Operations that have ended. Typed objects of all would take ten times as much."""
    for document in documents:
        if document.get("status", {}).get("status") == "COMPLETED":
            made, spec = parse_time(document["metadata"]["creationTimestamp"]), document["spec"]
            yield FinishedOperation(held_of(document), made, spec["action"], spec["target"]["uid"], spec.get("tenantUid", ""))


class Retention:
    """Removes what is surplus, again and again."""

    def __init__(
        self,
        store: Store,
        cache: Cache,
        logs: OperationLogs,
        keep: Keep,
        now: Callable[[], datetime],
        kinds: Iterable[str],
        own: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """own: how many are kept of the Tenants that declare it."""
        self._store = store
        self._cache = cache
        self._logs = logs
        self._keep = keep
        self._now = now
        self._kinds = tuple(kinds)
        self._own = own

    async def run(self, every_s: float) -> None:
        """Without end."""
        while True:
            await asyncio.sleep(every_s)
            await self.sweep()

    async def sweep(self) -> int:
        """Removes what is surplus now, with its logs. Returns how many; one that changes meanwhile waits for the next sweep.

        So do all others once the store or the logs do not answer: thousands of requests would fail one after another.
        Typed objects of the cache go, too: after a wave of deletions they are of Operations that no pass needs any more.
        """
        finished = await self._finished()
        living = {entry.uid for kind in self._kinds for _, entry in self._cache.entries(kind)}
        removed = surplus(finished, living, replace(self._keep, own=self._own()), self._now())
        gone = await self._remove(removed)
        self._cache.drop_typed()
        return gone

    async def _finished(self) -> list[FinishedOperation]:
        """Those that there are, read without holding up the loop: thousands take longer than a request may."""
        pace, found = Pace(), list[FinishedOperation]()
        for _, entry in tuple(self._cache.entries(Operation.KIND, SYSTEM_NAMESPACE)):
            await pace.breathe()
            found += finished_ones((entry.document(),))
        return found

    async def _remove(self, surplus: Iterable[FinishedOperation]) -> int:
        gone = 0
        for operation in surplus:
            try:
                await self._logs.remove(operation.held.ref.name)
                await self._store.delete(operation.held)
            except (NotFound, Conflict, Forbidden):
                continue
            except Halt as halt:
                log.warning("surplus Operations stay until the next sweep", removed=gone, error=str(halt))
                break
            gone += 1
        return gone
