"""Retention of Operations: the newest of each object, tenant and platform, and for a time. Unfinished ones always stay."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import Halt
from tenantry.ports import OperationLogs, Store
from tenantry.runtime.cache import Cache

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


def surplus(operations: Iterable[Operation], living: Collection[str], keep: Keep, now: datetime) -> list[Operation]:
    """Return the Operations to remove. living: the uids of existing objects.

    Deletions, and the last Operation of a living object, go after all others; they do not count against their target's own
    limit.
    """
    newest_first = sorted((one for one in operations if one.finished), key=_made, reverse=True)
    precious = _precious(newest_first, living)
    targets: Counter[str] = Counter()
    tenants: Counter[str] = Counter()
    kept = 0
    removed = []
    for one in sorted(newest_first, key=lambda one: one.metadata.name not in precious):
        target, tenant = one.spec.target.uid, one.spec.tenant_uid
        age = now - _made(one)
        has_room = age <= keep.young or targets[target] < keep.per_target
        keeps = one.metadata.name in precious or (age <= keep.age and has_room)
        if keeps and tenants[tenant] < keep.own.get(tenant, keep.per_tenant) and kept < keep.total:
            targets[target] += 1
            tenants[tenant] += 1
            kept += 1
        else:
            removed.append(one)
    return removed


def _precious(newest_first: Iterable[Operation], living: Collection[str]) -> set[str]:
    last: dict[str, str] = {}
    precious = set()
    for one in newest_first:
        if one.spec.action in DELETIONS:
            precious.add(one.metadata.name)
        if one.spec.target.uid in living:
            last.setdefault(one.spec.target.uid, one.metadata.name)
    return precious | set(last.values())


def _made(operation: Operation) -> datetime:
    made = operation.metadata.creation_timestamp
    assert made is not None, "a stored object has its time"
    return made


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
        """Removes what is surplus now, with its logs. Returns how many; one that changes meanwhile waits for the next sweep."""
        living = {entry.uid for kind in self._kinds for _, entry in self._cache.entries(kind)}
        operations = [cast(Operation, one) for one in self._cache.resources(Operation.KIND, SYSTEM_NAMESPACE)]
        removed = surplus(operations, living, replace(self._keep, own=self._own()), self._now())
        for operation in removed:
            with suppress(Halt):
                await self._logs.remove(operation.metadata.name)
                await self._store.delete(operation.held)
        return len(removed)
