"""One pass over one object: observe, decide, open the Operation, apply, again until nothing is wanted; settle; one status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import structlog
from structlog.contextvars import bind_contextvars, reset_contextvars

from tenantry.model.changes import Change, opens_first
from tenantry.model.decision import Decision
from tenantry.model.resource import FINALIZER, Document, Ref, Resource
from tenantry.model.verdicts import Conflict, Gone, Halt, NotFound, Stalled, Transient, Verdict, unforeseen
from tenantry.ports import Hands, Kind, World
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import attribution_of
from tenantry.runtime.operations.deciding import DEADLINE, Known
from tenantry.runtime.operations.records import Record, operations_of
from tenantry.runtime.operations.traces import attributes_of
from tenantry.runtime.reconcile import summary
from tenantry.runtime.reconcile.apply import apply
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.hot_objects import MOST, RESYNC_S, HotObjects, is_idle
from tenantry.runtime.reconcile.writing_store import without_finalizer
from tenantry.tracing.work import SUBJECT, Work, beginning, span

ROUNDS = 10
"""Rounds of one pass that carry out only what it has carried out before."""
MOST_ROUNDS = 1000
"""Rounds of one pass, whatever they bring."""

log = structlog.get_logger(__name__)
AnyKind = Kind[Any, Any]


class Ended(NamedTuple):
    """The result of a pass: its verdict, its changes in order, and the objects it read. verdict None: there was nothing to
    do. due: objects whose condition Hot is to be written or removed."""

    verdict: Verdict | None
    changes: tuple[Change, ...] = ()
    message: str = ""
    due: tuple[Ref, ...] = ()


class PassPorts(Protocol):
    """The source of one pass's ports: bootstrap for the real ones, plan for the what-if ones."""

    def world(self, view: TrackedView) -> World:
        """Return the ports for reading, through the pass's tracked view."""

    def hands(self, origin: Ref) -> Hands:
        """Return the ports for writing; the pass's own writes do not wake it."""


class Cycle:
    """Runs passes. `now` gives the time in UTC; `deadline`: how long an Operation retries what fails in passing."""

    def __init__(
        self,
        kinds: Mapping[str, AnyKind],
        cache: Cache,
        ports: PassPorts,
        now: Callable[[], datetime],
        deadline: timedelta = DEADLINE,
        resync_s: float = RESYNC_S,
    ) -> None:
        """resync_s: how often the host reconciles each object without a change."""
        self._kinds = kinds
        self._cache = cache
        self._ports = ports
        self._now = now
        self._deadline = deadline
        self.hot = HotObjects(now, resync_s)

    async def run(self, key: Ref, view: TrackedView, *, asked: bool = True) -> Ended:
        """One pass. What it read is in `view`. asked: for the object itself; else another one has changed that it reads.

        Raises nothing but what is a bug.
        """
        resource = self._cache.resource(key)
        if resource is None or key.kind not in self._kinds:
            self.hot.forget(key)
            return Ended(None)
        if resource.suspended and not resource.deleting:
            return await _Pass(self, resource, view).rest()
        with beginning(f"reconcile {key.kind}") as work:
            one = _Pass(self, resource, view, work)
            ended = await one.run()
            if work is not None and isinstance(ended.verdict, Stalled | Transient):
                work.error = ended.verdict.reason
            idle = asked and is_idle(ended.verdict, ended.changes, wrote=one.wrote)
            return ended._replace(due=self._due(resource, idle=idle))

    def _due(self, resource: Resource[Any, Any], *, idle: bool) -> tuple[Ref, ...]:
        """Count the pass. Return the objects that it makes hot, and those that have cooled."""
        cooled, key, metadata = self.hot.take_cooled(), resource.ref, resource.metadata
        if not idle or not self.hot.idle(key, metadata.uid, metadata.generation):
            return cooled
        log.warning("is reconciled too often although nothing changes", object=str(key), per_hour=f"more than {MOST}")
        return (*cooled, key)


class _Pass:
    def __init__(self, cycle: Cycle, resource: Resource[Any, Any], view: TrackedView, work: Work | None = None) -> None:
        self._kind = cycle._kinds[resource.KIND]
        self._cache = cycle._cache
        self._now = cycle._now
        self._confirmed = self._cache.confirmed
        self._resource = resource
        self._world = cycle._ports.world(view)
        self._hands = cycle._ports.hands(resource.ref)
        self._hot = cycle.hot
        self._done: list[Change] = []
        self.wrote = False
        attribution = attribution_of(resource, self._cache)
        known = Known(resource, operations_of(self._cache, resource), self._kind.standing, cycle._deadline)
        if work is not None:
            work.attributes |= attributes_of(resource.ref, resource.metadata.uid, attribution.tenant)
        self._record = Record(
            known,
            store=self._hands.store,
            cache=self._cache,
            logs=self._hands.logs,
            now=self._now,
            attribution=attribution,
            work=work,
        )

    async def run(self) -> Ended:
        bound = bind_contextvars(**{SUBJECT: self._record.subject})
        try:
            self._record.resume()
            return await self._run()
        finally:
            self._record.subject.ended = True
            reset_contextvars(**bound)

    async def _run(self) -> Ended:
        verdict: Verdict
        try:
            verdict = await self._phases()
        except (NotFound, Conflict) as moved:
            # Somebody wrote or removed the object during the pass: look again.
            verdict = moved.verdict
        except Halt as halt:
            verdict = halt.verdict
            if isinstance(verdict, Stalled):
                await self._tell(verdict)
        except Exception as bug:
            log.exception("pass failed", object=str(self._resource.ref))
            verdict = unforeseen(bug)
            await self._tell(verdict)
        return Ended(verdict, tuple(self._done))

    async def rest(self) -> Ended:
        """Of a suspended object: it says so, and nothing else is done."""
        try:
            await self._tell_status(summary.suspended(self._resource, self._now()))
        except Halt as halt:
            return Ended(halt.verdict)
        return Ended(None)

    async def _phases(self) -> Verdict:
        await self._ensure_finalizer()
        decision, verdict = await self._rounds()
        if decision.action and not self._resource.ready:
            await self._confirm()  # an Operation is recorded, perhaps for the second time
        await self._record.settle(decision, verdict)
        if isinstance(verdict, Gone):
            await self._release()
        else:
            await self._write_status(decision, verdict)
        return verdict

    async def _tell(self, verdict: Stalled | Transient) -> None:
        """Show on the object why its pass could not be ended as others are."""
        told = self._resource.status.condition("Ready")
        if told is None or told.reason != verdict.reason:
            log.warning("a pass could not be recorded", object=str(self._resource.ref), verdict=str(verdict))
        try:
            await self._write_status(Decision(self._resource.status, verdict), verdict)
        except Halt as halt:
            log.warning("status not written", object=str(self._resource.ref), error=str(halt))

    async def _rounds(self) -> tuple[Decision[Any], Verdict]:
        before: tuple[Change, ...] = ()
        acted: Decision[Any] | None = None
        carried_out: set[str] = set()
        idle = 0
        for _ in range(MOST_ROUNDS):
            try:
                observed = await self._kind.observe(self._resource, self._world)
            except Halt as halt:
                return acted or Decision(self._resource.status, halt.verdict), halt.verdict
            decision = _named_as(self._kind.decide(observed, self._now()), acted)
            if not decision.changes or decision.changes == before:
                return decision if decision.done is None else decision._replace(status=decision.done), decision.verdict
            if self._record.cancelled(decision):
                return decision, Stalled("Cancelled", "cancelled by a person: edit it, or ask for a reconcile")
            halted = await self._carry_out(decision)
            if halted is not None:
                return decision, halted
            before, acted = decision.changes, decision
            lines = set(map(str, decision.changes))
            idle = idle + 1 if lines <= carried_out else 0
            carried_out |= lines
            if idle == ROUNDS:
                break
        assert acted is not None
        wanted = ", ".join(map(str, acted.changes))
        told = f"a bug: still wanted after {idle} rounds without progress: {wanted}"
        return acted, Stalled("NotConverging", told, "Operator")

    async def _carry_out(self, decision: Decision[Any]) -> Verdict | None:
        await self._confirm()
        if any(map(opens_first, decision.changes)):
            await self._record.begin(decision)
        for change in decision.changes:
            try:
                with span(f"apply {type(change).__name__}"):
                    await apply(change, self._hands)
            except Halt as halt:
                return halt.verdict
            self._done.append(change)
            if decision.done is None:  # else perhaps for the second time: no step of its own
                self._record.note(change)
        return None

    async def _confirm(self) -> None:
        """Before the first effect of this process on an object, read it: a cache filled from an old list shows what is gone.

        Raises NotFound, or Conflict for another object or version. Later a pass of ours is the only one that lets it go.
        """
        metadata = self._resource.metadata
        if metadata.uid in self._confirmed:
            return
        stored = (await self._hands.store.get(self._resource.ref))["metadata"]
        if (stored["uid"], stored["resourceVersion"]) != (metadata.uid, metadata.resource_version):
            raise Conflict(f"{self._resource.ref} has changed since it was listed")
        self._confirmed.add(metadata.uid)

    async def _ensure_finalizer(self) -> None:
        metadata = self._resource.metadata
        if not self._kind.type.FINALIZED or FINALIZER in metadata.finalizers or self._resource.deleting:
            return
        stored = await self._hands.store.set_finalizers(self._resource.held, (*metadata.finalizers, FINALIZER))
        self._resource = self._kind.type.model_validate(stored)
        self._confirmed.add(metadata.uid)

    async def _release(self) -> None:
        metadata = self._resource.metadata
        await self._hands.store.set_finalizers(self._resource.held, without_finalizer(metadata.finalizers))
        self._confirmed.discard(metadata.uid)

    async def _write_status(self, decision: Decision[Any], verdict: Verdict) -> None:
        last, now = self._record.last, self._now()
        metadata = self._resource.metadata
        hot = self._hot.holds(self._resource.ref, metadata.uid, metadata.generation)
        written = summary.summarise(
            self._resource, decision.status, verdict, last, now, decision.drift, decision.warning, hot=hot
        )
        await self._tell_status(written)

    async def _tell_status(self, written: Document) -> None:
        if written != summary.current(self._resource):
            self.wrote = True
            await self._hands.store.set_status(self._resource.held, written)


def _named_as(decision: Decision[Any], acted: Decision[Any] | None) -> Decision[Any]:
    """The rounds of one pass are one Operation: the first that acted names it."""
    if acted is None:
        return decision
    return decision._replace(action=acted.action, subject=acted.subject, request=acted.request)
