"""A store that fails at one chosen write: for tests and the crash campaign."""

from __future__ import annotations

from enum import Enum

from tenantry.adapters.store.embedded import Verbs
from tenantry.adapters.store.semantics import Create, Delete, Replace, Request, SetFinalizers, SetStatus
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Conflict, Halt, Transient
from tenantry.ports import Store


class Crash(BaseException):
    """The process is taken to have died here. A BaseException, so that nothing handles it on the way out."""


class Fault(Enum):
    """The fault at the chosen write."""

    CRASH_BEFORE = "crash before the write commits"
    CRASH_AFTER = "crash after the write committed"
    CONFLICT = "answered Conflict, nothing written"
    TRANSIENT = "answered a transient failure, nothing written"
    TOO_MANY = "refused as one request too many, nothing written"
    ANSWER_LOST = "written, and the answer lost"


REFUSALS = {Fault.TRANSIENT: "Unavailable", Fault.TOO_MANY: "TooManyRequests"}
"""The reason of each refusal that passes. The client of a cluster gives the second after its own tries, when it gets 429."""


class FaultPoint:
    """Counts the writes of a process and says where the fault strikes. `at` counts from 1; 0 never strikes."""

    def __init__(self, at: int = 0, fault: Fault = Fault.CRASH_BEFORE) -> None:
        self.at = at
        self.fault = fault
        self.writes = 0

    def __str__(self) -> str:
        return f"write {self.at}: {self.fault.value}"

    def next(self) -> Fault | None:
        """Counts one write; its fault, where it has one."""
        self.writes += 1
        return self.fault if self.writes == self.at else None


class FaultyStore(Verbs):
    """Passes everything on to a store, save the fault of its FaultPoint. Stores made by `as_` share the count."""

    def __init__(self, store: Store, point: FaultPoint) -> None:
        self._store = store
        self._point = point

    async def get(self, ref: Ref) -> Document:
        return await self._store.get(ref)

    def as_(self, caller: Caller) -> Store:
        return FaultyStore(self._store.as_(caller), self._point)

    async def _perform(self, request: Request) -> Document:
        fault = self._point.next()
        match fault:
            case Fault.CRASH_BEFORE:
                raise Crash(str(self._point))
            case Fault.CONFLICT:
                raise Conflict(f"{request.ref}: {self._point}")
            case Fault.TRANSIENT | Fault.TOO_MANY:
                raise Halt(Transient(REFUSALS[fault], f"{request.ref}: {self._point}"))
        document = await self._pass_on(request)
        if fault is Fault.CRASH_AFTER:
            raise Crash(str(self._point))
        if fault is Fault.ANSWER_LOST:
            raise Halt(Transient("AnswerLost", f"{request.ref}: {self._point}"))
        return document

    async def _pass_on(self, request: Request) -> Document:
        match request:
            case Create(_, document):
                return await self._store.create(document)
            case Replace(_, document, version):
                return await self._store.replace(document, version)
            case SetStatus(_, held, status):
                return await self._store.set_status(held, status)
            case SetFinalizers(_, held, names):
                return await self._store.set_finalizers(held, names)
            case Delete(_, held):
                return await self._store.delete(held)
