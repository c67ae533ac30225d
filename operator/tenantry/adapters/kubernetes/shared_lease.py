"""Shards by one coordination.k8s.io Lease: its annotation is the ledger of the replicas, which they all renew.

As in `lease`, no clock of another machine counts. A replica whose entry is seen not to change for LASTS_S of one's own monotonic
time is gone, and any other one removes its entry. A replica that could not renew for RENEWS_WITHIN_S stops all its work before
others can think so.

Who holds the Lease alone, with one shard or by an earlier release, is waited for; it waits for the last replica here as well.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.lease import (
    EVERY_S,
    LASTS_S,
    RENEWS_WITHIN_S,
    LeaseLost,
    StoredLease,
    holder_of,
    jittered,
    now_text,
)
from tenantry.model.resource import GROUP
from tenantry.model.sharding.ledger import ReplicaEntry, ShardLedger, parse
from tenantry.model.sharding.shards import HeldShards
from tenantry.model.verdicts import Conflict, Halt, NotFound

LEDGER = f"{GROUP}/shards"
"""The annotation of the Lease, and its holder while replicas share the work."""
SOON_S = 0.5
"""The pause while shards are on their way from one replica to another."""
LEAVES_WITHIN_S = 5.0
GIVES_WITHIN_S = 30.0
"""A pass that does not end for so long ends with the process."""

log = structlog.get_logger(__name__)


class ShardWork(Protocol):
    """The work of the shards."""

    async def give(self, shards: frozenset[int]) -> None:
        """End the work on shards that are no longer held. Nothing of it is under way when the call returns."""

    async def take(self, shards: frozenset[int]) -> None:
        """Begin the work on shards that are held from now on."""

    @property
    def looked(self) -> bool:
        """Return True if every object of the held shards had a pass."""


class _Watched(NamedTuple):
    """The last renewal of another replica, and when it was first seen, in monotonic seconds."""

    run: str
    beat: int
    since: float


class SharedLease(StoredLease):
    """One replica's part of the ledger. held: the shards on which it acts; ledger: as it was stored last.

    wants: the number of shards by this replica's settings.
    """

    def __init__(
        self,
        client: Client,
        place: tuple[str, str],
        holder: str,
        *,
        wants: int,
        release: str,
        held: HeldShards,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """place: namespace and name of the Lease."""
        super().__init__(client, *place, holder, clock)
        self._wants = wants
        self._release = release
        self._run = uuid.uuid4().hex[:12]
        self._beat = 0
        self._watched: dict[str, _Watched] = {}
        self._giving: asyncio.Task[None] | None = None
        self._gives_since = 0.0
        self._begun: frozenset[int] = frozenset()
        """The held shards whose work has begun."""
        self.held = held
        self.ledger = ShardLedger(wants)

    async def join(self) -> None:
        """Returns once this replica has an entry. It holds no shard then."""
        await self._until(self._joined)

    async def keep(self, work: ShardWork) -> None:
        """Renew, give and take without end. Raises LeaseLost, and what the work raises; nothing is held then."""
        try:
            while True:
                try:
                    async with asyncio.timeout(max(0.1, self._renewed_at + RENEWS_WITHIN_S - self._clock())):
                        pause = await self._turn(work)
                except TimeoutError:
                    raise LeaseLost(f"the lease could not be renewed for {RENEWS_WITHIN_S:.0f} s") from None
                await self._rest(pause)
        finally:
            self.held.hold(self.held.count, ())
            if self._giving is not None:
                self._giving.cancel()
                await asyncio.gather(self._giving, return_exceptions=True)

    async def leave(self) -> None:
        """Let others have the shards at once. Call it when all work has ended."""
        try:
            async with asyncio.timeout(LEAVES_WITHIN_S):
                while not await self._left():  # noqa: ASYNC110 - others write in between
                    await asyncio.sleep(random.uniform(0, EVERY_S / 20))  # noqa: S311 - jitter, not a secret
        except (Halt, TimeoutError) as error:
            log.warning("shards not released", error=str(error) or type(error).__name__)

    def others_looked(self) -> bool:
        """Return True if all shards are held by replicas of this release that have looked at every object of them."""
        return self.ledger.all_looked(self._release)

    async def _joined(self) -> bool:
        """Return True if this replica has an entry now. Raises AlreadyExists, Conflict, Halt."""
        try:
            found = await self._get()
        except NotFound:
            self._renewed_at = self._clock()
            await self._create(self._first())
            return True
        ledger = self._ledger_of(found)
        if ledger is None:
            if not self._is_free(found):
                return False
            ledger = ShardLedger(self._wants)
        self._renewed_at = self._clock()
        await self._put(found, ledger.with_entry(self._holder, self._entry(frozenset())))
        return True

    async def _turn(self, work: ShardWork) -> float:
        """One renewal; waits through outages. Return the pause until the next one."""
        while True:
            try:
                waits = await self._renew(work)
            except Conflict:
                await asyncio.sleep(random.uniform(0, EVERY_S / 20))  # noqa: S311 - jitter, not a secret
            except NotFound:
                raise LeaseLost("the lease is gone") from None
            except Halt as halt:
                log.warning("lease not renewed", error=str(halt))
                await asyncio.sleep(EVERY_S / 4)
            else:
                return self._pause(waits)

    async def _renew(self, work: ShardWork) -> bool:
        """Return True if shards are on their way to or from this replica. Raises Conflict, LeaseLost, Halt."""
        found = await self._get()
        ledger = self._ledger_of(found)
        own = ledger.entries.get(self._holder) if ledger is not None else None
        if ledger is None or own is None or own.run != self._run:
            raise LeaseLost("another process holds the lease")
        ledger = ledger.without(self._gone(ledger))
        step = ledger.next_step(self._holder)
        if not self._has_given():
            # What is given up stays in the entry until the last pass of it has ended.
            await self._write(found, ledger, own.holds)
            return True
        if surplus := self.held.held - step.holds:
            self._giving = self._begin_to_give(work, surplus)
            await self._rest(SOON_S)
            return await self._renew(work)  # others have written since
        looked = work.looked and step.holds == self._begun
        await self._write(found, ShardLedger(step.count, ledger.entries), step.holds, looked=looked)
        self.held.hold(step.count, step.holds)
        return not await self._took(work) or step.waits

    async def _took(self, work: ShardWork) -> bool:
        """Begin what is held and has not begun. Return False if that must be tried again."""
        gained = self.held.held - self._begun
        if not gained:
            return True
        try:
            await work.take(gained)
        except Halt as halt:
            log.warning("shards not taken yet", shards=sorted(gained), error=str(halt))
            return False
        self._begun = self.held.held
        log.info("shards taken", shards=sorted(gained), held=sorted(self._begun), of=self.held.count)
        return True

    def _begin_to_give(self, work: ShardWork, surplus: frozenset[int]) -> asyncio.Task[None]:
        self.held.hold(self.held.count, self.held.held - surplus)  # from here on no pass of them begins
        self._begun -= surplus
        self._gives_since = self._clock()
        log.info("shards given up", shards=sorted(surplus), held=sorted(self.held.held), of=self.held.count)
        return asyncio.create_task(work.give(surplus), name="give shards")

    def _has_given(self) -> bool:
        """Return True once nothing is being given up. Raises LeaseLost for work that does not end."""
        if self._giving is not None and self._giving.done():
            given, self._giving = self._giving, None
            given.result()
        if self._giving is not None and self._clock() - self._gives_since >= GIVES_WITHIN_S:
            raise LeaseLost(f"the work on shards did not end within {GIVES_WITHIN_S:.0f} s")
        return self._giving is None

    async def _rest(self, seconds: float) -> None:
        """Pause, but not longer than until all is given up."""
        if self._giving is None:
            await asyncio.sleep(seconds)
        else:
            await asyncio.wait((self._giving,), timeout=seconds)

    async def _write(self, found: dict[str, Any], ledger: ShardLedger, holds: frozenset[int], *, looked: bool = False) -> None:
        sent = self._clock()
        self._beat += 1
        await self._put(found, ledger.with_entry(self._holder, self._entry(holds, looked=looked)))
        self._renewed_at = sent

    def _pause(self, waits: bool) -> float:
        """Return the seconds until the next renewal, not past the moment at which another replica counts as gone."""
        ends = min((each.since + LASTS_S - self._clock() for each in self._watched.values()), default=EVERY_S)
        return max(0.05, min(jittered(SOON_S if waits else EVERY_S), ends + 0.05))

    def _gone(self, ledger: ShardLedger) -> frozenset[str]:
        """Return the replicas that have not renewed in all the time that this one has watched."""
        now, before, self._watched = self._clock(), self._watched, {}
        for name, entry in ledger.entries.items():
            if name == self._holder:
                continue
            known = before.get(name)
            same = known is not None and (known.run, known.beat) == (entry.run, entry.beat)
            self._watched[name] = known if known is not None and same else _Watched(entry.run, entry.beat, now)
        gone = frozenset(name for name, each in self._watched.items() if now - each.since >= LASTS_S)
        for name in gone:
            log.warning("replica is gone", replica=name, shards=sorted(ledger.entries[name].holds))
        return gone

    @staticmethod
    def _ledger_of(found: dict[str, Any]) -> ShardLedger | None:
        """None while the Lease is nobody's, or of one that holds it alone."""
        if holder_of(found) != LEDGER:
            return None
        return parse((found["metadata"].get("annotations") or {}).get(LEDGER, ""))

    async def _left(self) -> bool:
        try:
            found = await self._get()
            ledger = self._ledger_of(found)
            own = ledger.entries.get(self._holder) if ledger is not None else None
            if ledger is not None and own is not None and own.run == self._run:
                await self._put(found, ledger.without((self._holder,)))
        except Conflict:
            return False
        except NotFound:
            return True
        return True

    def _entry(self, holds: frozenset[int], *, looked: bool = False) -> ReplicaEntry:
        return ReplicaEntry(self._run, self._beat, self._wants, holds, looked, self._release)

    async def _put(self, found: Mapping[str, Any], ledger: ShardLedger) -> None:
        """Without a replica in it the Lease is nobody's. Raises Conflict if another one was faster."""
        before, metadata = found.get("spec") or {}, found["metadata"]
        holder = LEDGER if ledger.entries else ""
        changed = holder != before.get("holderIdentity")
        spec = self._spec(holder, int(before.get("leaseTransitions") or 0) + changed)
        if not changed:
            spec["acquireTime"] = before.get("acquireTime", spec["acquireTime"])
        annotations = {**(metadata.get("annotations") or {}), LEDGER: ledger.text()}
        body = {**found, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
        await self._replace(body)
        self.ledger = ledger

    def _first(self) -> dict[str, Any]:
        self.ledger = ShardLedger(self._wants).with_entry(self._holder, self._entry(frozenset()))
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": {LEDGER: self.ledger.text()}}
        spec = self._spec(LEDGER, 0)
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    @staticmethod
    def _spec(holder: str, transitions: int) -> dict[str, Any]:
        now = now_text()
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(LASTS_S) if holder else 1,
            "leaseTransitions": transitions,
            "acquireTime": now,
            "renewTime": now,
        }
