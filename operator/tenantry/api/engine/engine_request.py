"""One request to the engine interface of one environment: its write is made, recorded, waited for, and taken back if refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from starlette.requests import Request

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.api.reading.waiting import until
from tenantry.api.writing.preconditions import Marks, made_by
from tenantry.api.writing.queueing import queue, tells
from tenantry.api.writing.writes import WriteContext
from tenantry.kinds.environment.missing import DATA_MISSING
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.tenancy import check_awake, endpoint_of
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Held, Ref, Resource, held_of, ref_of
from tenantry.model.verdicts import Conflict, Halt, Invalid, NotFound, Overtaken, Problem, Stalled, Transient, without_paths
from tenantry.ports import EngineView
from tenantry.rest.routes import flag
from tenantry.runtime.cache import Seen
from tenantry.runtime.operations.attribution import attribution_of
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.reconcile.revising import ATTEMPTS
from tenantry.runtime.reconcile.writing_store import WritingStore


async def _nothing() -> None:
    return None


async def nothing(writes: WriteContext) -> None:
    """The write of a request that finds everything as it wants it."""


def _unknown(resource: Resource[Any, Any]) -> None:
    return None


class Written(NamedTuple):
    """A write of one resource. before: None for a new one; undo: what a refusal takes back besides.

    has: does the resource's status tell that the engine has it? None leaves it to the generation that was observed.
    """

    resource: Resource[Any, Any]
    before: Document | None
    after: Document
    action: str
    cause: str
    subject: str = ""
    undo: Callable[[], Awaitable[None]] = _nothing
    has: Callable[[Resource[Any, Any]], bool | None] = _unknown

    @property
    def unchanged(self) -> bool:
        return self.before is self.after


Write = Callable[[WriteContext, Marks | None], Awaitable[Written]]


@dataclass(frozen=True)
class EngineRequest:
    """A caller's request to an environment's engine."""

    context: FacadeContext
    http: Request
    principal: SignedInUser
    environment: Environment
    tenant: Tenant

    @property
    def namespace(self) -> str:
        return self.environment.metadata.namespace

    @property
    def caller(self) -> Caller:
        return self.principal.caller

    @property
    def by(self) -> str:
        """The index key of what belongs to the environment."""
        return f"environment={self.environment.metadata.name}"

    def store(self, writes: WriteContext) -> WritingStore:
        """The store with the caller's rights."""
        return writes.store.as_(self.caller)

    def engine(self) -> EngineView | None:
        """The engine, for reading, or None while it does not run."""
        endpoint = endpoint_of(self.environment)
        return self.context.facade.engines.at(endpoint) if endpoint is not None else None

    def engine_awake(self) -> EngineView | None:
        """Return the same. Raises a Halt (Sleeping), which is answered 503, if it sleeps and the request is no plan."""
        if not flag(self.http, "dryRun"):
            check_awake(self.environment)
        return self.engine()

    async def perform(self, write: Write, *about: str) -> Resource[Any, Any]:
        """Make the write and return it when the engine has it. `about` distinguishes repeated requests.

        Raises the errors of the write, Invalid when the engine refuses, and a Halt that names the Operation after too long a
        time.
        """
        context = self.context
        marks = context.marks(self.http, self.principal, "\0".join(about).encode())
        made = made_by(context.cache, Operation.KIND, marks, context.facade.now())
        _check_whole(self.environment)
        await self.answer_plan(nothing if made is not None else lambda writes: write(writes, None))
        if made is not None:
            return await self._again(cast(Operation, made))
        written = await write(context.writes, marks)
        if written.unchanged:
            await self._ready(written.resource)
            return written.resource
        operation = await queue(
            context.facade.store,
            written.resource,
            action=written.action,
            cause=written.cause,
            subject=written.subject,
            attribution=attribution_of(written.resource, context.cache),
            caller=self.caller,
            marks=marks,
        )
        refusal = await self._refusal(operation, written)
        if refusal:
            await self._take_back(written)
            raise Invalid((Problem("", refusal),))
        return written.resource

    def created_before(self, kind: str, marks: Marks | None) -> Document | None:
        """Return the object that the same request created before it was refused in passing, or None. Raises Invalid."""
        made = made_by(self.context.cache, kind, marks, self.context.facade.now())
        return None if made is None else cast(Document, self.context.cache.document(made.ref))

    async def answer_plan(self, write: Callable[[WriteContext], Awaitable[Written | None]]) -> None:
        """Answer `?dryRun=true` with the plan of the write; else return once `If-Plan` is seen to hold.

        Raises PlanAnswered, what the write raises, and what the engine would refuse it with.
        """
        written: list[Written | None] = []

        async def noted(writes: WriteContext) -> None:
            written.append(await write(writes))

        def refuse(planned: Planned) -> None:
            if written and written[0] is not None:
                _refuse_as_the_engine(planned, written[0])

        await self.context.answer_plan(self.http, self.principal, noted, refuse)

    async def _again(self, operation: Operation) -> Resource[Any, Any]:
        """The answer to a repeated request: as its Operation ended."""
        target = operation.spec.target
        found = self.context.cache.resource(Ref(target.kind, target.namespace, target.name))
        resource = found if found is not None and found.metadata.uid == target.uid else operation
        document = cast(Document, self.context.cache.document(resource.ref))
        has = _unknown if resource is not operation else lambda _: True
        again = Written(resource, None, document, operation.spec.action, operation.spec.cause, has=has)
        refusal = await self._refusal(operation.id, again)
        if refusal:
            raise Invalid((Problem("", refusal),))
        return resource

    async def _refusal(self, id_: str, written: Written) -> str:
        """Return the engine's refusal, `""` if it has the change. Raises a Halt if the answer is late or nobody's fault."""
        cache = self.context.cache
        ref, target, environment = Operation.named(id_), ref_of(written.after), self.environment.ref

        def ended() -> str | None:
            operation = cast("Operation | None", cache.resource(ref))
            if operation is None or not operation.finished:
                _check_whole(cache.resource(environment), f"; operation {id_} continues when it is")
                return _told(cache.resource(target), written)
            return _concluded(operation, cache.resource(target), written)

        def concerns(seen: Seen) -> bool:
            return seen.ref in (ref, target, environment)

        outcome = await until(cache, ended, concerns, self.context.facade.engine_wait.total_seconds())
        if outcome is None:
            raise Halt(Stalled("EngineSlow", f"the engine has not answered yet; operation {id_} continues", "Operator"))
        return outcome

    async def _ready(self, resource: Resource[Any, Any]) -> None:
        """Waits for what an earlier request wrote."""
        cache, ref = self.context.cache, resource.ref

        def ended() -> str | None:
            return _settled(cache.resource(ref))

        outcome = await until(cache, ended, lambda seen: seen.ref == ref, self.context.facade.engine_wait.total_seconds())
        if outcome is None:
            raise Halt(Stalled("EngineSlow", "the engine has not carried out an earlier change yet", "Operator"))
        if outcome:
            raise Invalid((Problem("", outcome),))

    async def _take_back(self, written: Written) -> None:
        """Sets back what was set, while the generation is still the write's own."""
        store = self.store(self.context.writes)
        ref = ref_of(written.after)
        for _ in range(ATTEMPTS):
            try:
                current = await store.get(ref)
                if current["metadata"].get("generation") != written.after["metadata"].get("generation"):
                    return
                if written.before is None:
                    await store.delete(Held(ref, current["metadata"]["uid"], current["metadata"]["resourceVersion"]))
                else:
                    await store.replace({**current, "spec": written.before["spec"]}, held_of(current).version)
            except NotFound:
                pass
            except Conflict:
                continue
            await written.undo()
            return


def _check_whole(environment: Resource[Any, Any] | None, more: str = "") -> None:
    """Raises a Transient Halt while the engine's data is missing or damaged: only a person can end that."""
    stalled = environment.status.condition("Stalled") if environment is not None else None
    if stalled is not None and stalled.reason == DATA_MISSING:
        told = f"the data of this environment's engine is missing or damaged ({DATA_MISSING}); it must be put back first{more}"
        raise Halt(Transient(DATA_MISSING, told))


def _refuse_as_the_engine(planned: Planned, written: Written) -> None:
    """Raises what the request would be refused with once its Operation had failed. Nothing wakes what stays as it is."""
    verdict = dict(planned.verdicts).get(ref_of(written.after))
    if isinstance(verdict, Stalled):
        raise Invalid((Problem("", verdict.message),)) if verdict.by == "User" else Halt(verdict)
    if written.unchanged and (refusal := _settled(written.resource)):
        raise Invalid((Problem("", refusal),))


def _outcome(operation: Operation) -> str:
    """Return the reason of a failure, `""` after success. Raises a Halt for a failure that the caller cannot fix."""
    status = operation.status
    if status.result == "SUCCESS":
        return ""
    message = status.message or status.code
    if status.result == "FAILURE" and status.by == "User":
        return message or "refused"
    if status.result == "CANCELLED":
        raise Overtaken(f"operation {operation.id} was cancelled before it was carried out")
    raise Halt(Stalled("OperationFailed", f"operation {operation.id}: {message}", "Operator"))


def _concluded(operation: Operation, resource: Resource[Any, Any] | None, written: Written) -> str | None:
    """Return the outcome of an ended Operation, once the resource shows the same to its readers."""
    if operation.status.result == "SUCCESS":
        if resource is None or _written_again(resource, written):
            return ""
        has = written.has(resource)
        return "" if has or (has is None and tells(resource, written.after)) else None
    if operation.status.result == "CANCELLED" and resource is not None and _written_again(resource, written):
        # A later request of somebody else took its place: the engine may have both.
        if _settled(resource) is None:
            return None
        if written.has(resource):
            return ""
        raise Overtaken(f"operation {operation.id}: the change was replaced by a newer change before it was carried out")
    return _outcome(operation)


def _written_again(resource: Resource[Any, Any], written: Written) -> bool:
    newer: bool = resource.metadata.generation > written.after["metadata"].get("generation", 0)
    return newer and not resource.deleting


def _told(resource: Resource[Any, Any] | None, written: Written) -> str | None:
    """Return the outcome that the resource shows before its Operation ends: it is gone, or refused without an Operation."""
    uid, generation = written.after["metadata"]["uid"], written.after["metadata"].get("generation")
    if resource is None or resource.metadata.uid != uid:
        return "" if written.after["metadata"].get("deletionTimestamp") else "it was deleted during the request"
    if resource.metadata.generation != generation or resource.deleting:
        return None
    return _settled(resource) or None


def _settled(resource: Resource[Any, Any] | None) -> str | None:
    """`""` when it is Ready, the reason when somebody must act, None while it goes on."""
    if resource is None:
        return "it was deleted during the request"
    if resource.status.observed_generation != resource.metadata.generation:
        return None
    stalled = resource.status.condition("Stalled")
    if stalled is not None:
        return without_paths(stalled.message or stalled.reason)
    ready: bool = resource.ready
    return "" if ready else None
