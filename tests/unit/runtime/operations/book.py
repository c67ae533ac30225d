"""Operations in a store, and passes over one object after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tenantry.adapters.overlay.packages import NoLogs
from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import TYPES
from tenantry.model.changes import Change
from tenantry.model.decision import Decision
from tenantry.model.resource import Resource
from tenantry.model.verdicts import Verdict
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import Attribution
from tenantry.runtime.operations.deciding import DEADLINE, Known
from tenantry.runtime.operations.documents import queued_document
from tenantry.runtime.operations.records import Record, operations_of
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.unit.kinds.factories import NOW

ADMISSION = Admission()
ACME = Attribution("acme", "uid-of-acme", "id-of-acme", "id-of-dev")


@dataclass
class Book:
    """Operations in a store, and passes over one object after the other. now: moves by hand."""

    now: datetime = NOW
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = Cache(TYPES)
        self.store = WritingStore(MemoryStore(ADMISSION, clock=lambda: self.now), self.cache)

    def record(self, resource: Resource[Any, Any], deadline: timedelta = DEADLINE) -> Record:
        return Record(
            Known(resource, operations_of(self.cache, resource), deadline=deadline),
            store=self.store,
            cache=self.cache,
            logs=NoLogs(),
            now=lambda: self.now,
            attribution=ACME,
        )

    async def passes(
        self,
        resource: Resource[Any, Any],
        verdict: Verdict,
        *changes: Change,
        action: str = "CREATE_TENANT",
        request: str = "",
        subject: str = "",
        begins: bool = False,
    ) -> Record:
        """One pass that carries those changes out and ends so. begins: its Operation runs before the first of them."""
        record = self.record(resource)
        decision = Decision(resource.status, verdict, action, subject, request, changes)
        if begins:
            await record.begin(decision)
        for change in changes:
            record.note(change)
        await record.settle(decision, verdict)
        return record

    async def queue(self, resource: Resource[Any, Any], cause: str, action: str = "CREATE_TENANT") -> str:
        """As the facade does. The name."""
        document = queued_document(resource, action=action, cause=cause, attribution=ACME, requested_by="ann")
        await self.store.create(document)
        return str(document["metadata"]["name"])

    async def cancel(self, name: str) -> None:
        """As the facade does."""
        document = dict(await self.store.get(Operation.named(name)))
        ended = {**document["status"], "status": "COMPLETED", "result": "CANCELLED"}
        await self.store.replace(document | {"status": ended}, document["metadata"]["resourceVersion"])

    @property
    def all(self) -> list[Operation]:
        found = [one for one in self.cache.resources("Operation") if isinstance(one, Operation)]
        return sorted(found, key=lambda one: (one.spec.cause, one.spec.attempt))

    @property
    def told(self) -> list[tuple[str, str, str, str]]:
        """Action, cause, status and result of each."""
        return [(one.spec.action, one.spec.cause, one.status.status, one.status.result) for one in self.all]
