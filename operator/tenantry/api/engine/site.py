"""One request to the engine interface of one environment: its write is made, recorded, waited for, and taken back if refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.authentication import Principal
from tenantry.api.front import Front
from tenantry.api.preconditions import Marks, made_by
from tenantry.api.queueing import queue, tells
from tenantry.api.waiting import until
from tenantry.api.writes import Desk
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.tenancy import endpoint_of
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Held, Ref, Resource, held_of, ref_of
from tenantry.model.verdicts import Conflict, Halt, Invalid, NotFound, Problem, Stalled
from tenantry.ports import EngineView
from tenantry.runtime.attribution import attribution_of
from tenantry.runtime.cache import Seen
from tenantry.runtime.planned import Planned
from tenantry.runtime.revising import ATTEMPTS
from tenantry.runtime.writing import WritingStore


class PlanAnswered(Exception):  # noqa: N818 - not an error: `?dryRun=true` asked for the plan instead of the write
    """Carries the plan past the routes that are shared with the engine."""

    def __init__(self, response: Response) -> None:
        super().__init__("planned")
        self.response = response


async def _nothing() -> None:
    return None


async def nothing(desk: Desk) -> None:
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


Write = Callable[[Desk, Marks | None], Awaitable[Written]]


@dataclass(frozen=True)
class Site:
    """Who asks what of which environment."""

    front: Front
    request: Request
    principal: Principal
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

    def store(self, desk: Desk) -> WritingStore:
        """The store with the caller's rights."""
        return desk.store.as_(self.caller)

    def engine(self) -> EngineView | None:
        """The engine, for reading, or None while it does not run."""
        endpoint = endpoint_of(self.environment)
        return self.front.facade.engines.at(endpoint) if endpoint is not None else None

    async def perform(self, write: Write, *about: str) -> Resource[Any, Any]:
        """Makes the write and answers when the engine has it; what was written. `about` tells repeated requests apart.

        Raises what the write raises, Invalid when the engine refuses, and a Halt naming the Operation when it takes too long.
        """
        front = self.front
        marks = front.marks(self.request, self.principal, "\0".join(about).encode())
        made = made_by(front.cache, Operation.KIND, marks, front.facade.now())
        await self.answer_plan(nothing if made is not None else lambda desk: write(desk, None))
        if made is not None:
            return await self._again(cast(Operation, made))
        written = await write(front.desk, marks)
        if written.unchanged:
            await self._ready(written.resource)
            return written.resource
        operation = await queue(
            front.facade.store,
            written.resource,
            action=written.action,
            cause=written.cause,
            subject=written.subject,
            attribution=attribution_of(written.resource, front.cache),
            caller=self.caller,
            marks=marks,
        )
        refusal = await self._refusal(operation, written)
        if refusal:
            await self._take_back(written)
            raise Invalid((Problem("", refusal),))
        return written.resource

    async def answer_plan(self, write: Callable[[Desk], Awaitable[Written | None]]) -> None:
        """Answer `?dryRun=true` with the plan of the write; else return once `If-Plan` is seen to hold.

        Raises PlanAnswered, what the write raises, and what the engine would refuse it with.
        """
        written: list[Written | None] = []

        async def noted(desk: Desk) -> None:
            written.append(await write(desk))

        def refuse(planned: Planned) -> None:
            if written and written[0] is not None:
                _refuse_as_the_engine(planned, written[0])

        plan = await self.front.planned(self.request, self.principal, noted, refuse)
        if plan is not None:
            raise PlanAnswered(plan)

    async def _again(self, operation: Operation) -> Resource[Any, Any]:
        """The answer to a repeated request: as its Operation ended."""
        target = operation.spec.target
        found = self.front.cache.resource(Ref(target.kind, target.namespace, target.name))
        resource = found if found is not None and found.metadata.uid == target.uid else operation
        document = cast(Document, self.front.cache.document(resource.ref))
        has = _unknown if resource is not operation else lambda _: True
        again = Written(resource, None, document, operation.spec.action, operation.spec.cause, has=has)
        refusal = await self._refusal(operation.id, again)
        if refusal:
            raise Invalid((Problem("", refusal),))
        return resource

    async def _refusal(self, id_: str, written: Written) -> str:
        """Why the engine refused, `""` when it has it. Raises a Halt when that is not known in time, or is nobody's fault."""
        cache = self.front.cache
        ref, target = Operation.named(id_), ref_of(written.after)

        def ended() -> str | None:
            operation = cast("Operation | None", cache.resource(ref))
            if operation is None or not operation.finished:
                return _told(cache.resource(target), written)
            return _concluded(operation, cache.resource(target), written)

        def concerns(seen: Seen) -> bool:
            return seen.ref in (ref, target)

        outcome = await until(cache, ended, concerns, self.front.facade.engine_wait.total_seconds())
        if outcome is None:
            raise Halt(Stalled("EngineSlow", f"the engine has not answered yet; operation {id_} continues", "Operator"))
        return outcome

    async def _ready(self, resource: Resource[Any, Any]) -> None:
        """Waits for what an earlier request wrote."""
        cache, ref = self.front.cache, resource.ref

        def ended() -> str | None:
            return _settled(cache.resource(ref))

        outcome = await until(cache, ended, lambda seen: seen.ref == ref, self.front.facade.engine_wait.total_seconds())
        if outcome is None:
            raise Halt(Stalled("EngineSlow", "the engine has not taken an earlier change yet", "Operator"))
        if outcome:
            raise Invalid((Problem("", outcome),))

    async def _take_back(self, written: Written) -> None:
        """Sets back what was set, while the generation is still the write's own."""
        store = self.store(self.front.desk)
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


def _refuse_as_the_engine(planned: Planned, written: Written) -> None:
    """Raises what the request would be refused with once its Operation had failed. Nothing wakes what stays as it is."""
    verdict = dict(planned.verdicts).get(ref_of(written.after))
    if isinstance(verdict, Stalled):
        raise Invalid((Problem("", verdict.message),)) if verdict.by == "User" else Halt(verdict)
    if written.unchanged and (refusal := _settled(written.resource)):
        raise Invalid((Problem("", refusal),))


def _outcome(operation: Operation) -> str:
    """Why it failed, `""` when it succeeded. Raises a Halt for a failure that the caller cannot mend."""
    status = operation.status
    if status.result == "SUCCESS":
        return ""
    lines = [line for line in status.logs.splitlines() if f" ERROR {status.code}: " in line]
    message = lines[-1].partition(f" ERROR {status.code}: ")[2] if lines else status.code
    if status.result == "FAILURE" and status.by == "User":
        return message or "refused"
    about = message if status.result == "FAILURE" else "it was cancelled"
    raise Halt(Stalled("OperationFailed", f"operation {operation.id}: {about}", "Operator"))


def _concluded(operation: Operation, resource: Resource[Any, Any] | None, written: Written) -> str | None:
    """What an ended Operation says, once the resource tells the same to those who read it."""
    if operation.status.result == "SUCCESS":
        if resource is None or _written_again(resource, written):
            return ""
        has = written.has(resource)
        return "" if has or (has is None and tells(resource, written.after)) else None
    if operation.status.result == "CANCELLED" and resource is not None and _written_again(resource, written):
        # A later request of somebody else took its place: the engine may have both.
        return None if _settled(resource) is None else "" if written.has(resource) else _outcome(operation)
    return _outcome(operation)


def _written_again(resource: Resource[Any, Any], written: Written) -> bool:
    newer: bool = resource.metadata.generation > written.after["metadata"].get("generation", 0)
    return newer and not resource.deleting


def _told(resource: Resource[Any, Any] | None, written: Written) -> str | None:
    """What the resource tells of the write before its Operation ends: that it is gone, or refused without one."""
    uid, generation = written.after["metadata"]["uid"], written.after["metadata"].get("generation")
    if resource is None or resource.metadata.uid != uid:
        return "" if written.after["metadata"].get("deletionTimestamp") else "it was deleted meanwhile"
    if resource.metadata.generation != generation or resource.deleting:
        return None
    return _settled(resource) or None


def _settled(resource: Resource[Any, Any] | None) -> str | None:
    """`""` when it is Ready, the reason when somebody must act, None while it goes on."""
    if resource is None:
        return "it was deleted meanwhile"
    if resource.status.observed_generation != resource.metadata.generation:
        return None
    stalled = resource.status.condition("Stalled")
    if stalled is not None:
        return str(stalled.message or stalled.reason)
    ready: bool = resource.ready
    return "" if ready else None
