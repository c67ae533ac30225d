"""The shared parts of the facade's routes, composed once from its dependencies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import Authenticator, SignedInUser
from tenantry.api.auth.tenant_lookup import Owners
from tenantry.api.facade import Facade
from tenantry.api.reading.body_cache import BodyCache, Row
from tenantry.api.reading.rendering import Renderer
from tenantry.api.reading.versions import Versions
from tenantry.api.writing.preconditions import Marks, check_plan, marks_of, wanted_plan
from tenantry.api.writing.queueing import carried_out, preferred_wait
from tenantry.api.writing.turns import Turns
from tenantry.api.writing.writes import WriteContext
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt, Transient
from tenantry.rest.bodies import json_response
from tenantry.rest.fairness.long_steps import off_the_loop
from tenantry.rest.leaving import while_connected
from tenantry.rest.routes import flag
from tenantry.runtime.planning.plan import Edit, Remarks, Settle, WhatIf
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.sources.write_back import DeclaringStore

T = TypeVar("T")
Write = Callable[[WriteContext], Awaitable[object]]
PLAN_S = 60.0
"""Seconds that a plan may take once it has its turn."""

log = structlog.get_logger(__name__)


class PlanAnswered(Exception):  # noqa: N818 - not an error: `?dryRun=true` asked for the plan instead of the write
    """Carries the plan past what a write would have answered."""

    def __init__(self, response: Response) -> None:
        super().__init__("planned")
        self.response = response


class FacadeContext:
    """Read rights, bodies and writes of the facade."""

    def __init__(self, facade: Facade) -> None:
        cache = facade.cache
        self.facade = facade
        self.cache = cache
        self.writes = _writes(facade)
        self.owners = Owners(cache)
        self.authenticator = Authenticator(facade.keys, cache, facade.secrets, facade.now, facade.trusted)
        self.versions = Versions(cache)
        self.renderer = renderer = Renderer(cache, facade.preview, facade.provider)
        self.regions = BodyCache(cache, Region.KIND, renderer.region)
        self.tenants = BodyCache(cache, Tenant.KIND, renderer.tenant)
        self.environments = BodyCache(cache, Environment.KIND, renderer.environment, renderer.environments_affected)
        self.operations = BodyCache(cache, Operation.KIND, renderer.operation, newest_first=True)
        self.users = BodyCache(cache, User.KIND, renderer.user, renderer.users_affected)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._following: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        """By subject: records of writes that were answered already."""

    async def enter(self, request: Request) -> SignedInUser:
        """Return the sender of the request, once the cache has the requested version and the records of the caller's earlier
        requests. Raises Unauthorized, Invalid, QuotaReached."""
        principal = await self.authenticator.principal(request)
        self.facade.quotas.admit(principal.caller.tenant)
        await self.facade.gate.turn(principal.caller.tenant or principal.caller.subject)
        await self._caught_up(request, principal)
        return principal

    async def enter_superuser(self, request: Request) -> SignedInUser:
        """The same for a SUPERUSER's routes. Raises Forbidden for other roles, before anything else is looked at."""
        principal = await self.authenticator.principal(request)
        principal.require_superuser()
        await self._caught_up(request, principal)
        return principal

    async def _caught_up(self, request: Request, principal: SignedInUser) -> None:
        await self.versions.reached(request)
        if following := self._following.get(principal.caller.subject):
            await asyncio.wait(following)

    def follow(self, principal: SignedInUser, record: Coroutine[Any, Any, object]) -> None:
        """Makes the record of a write that is durable, and may be answered before: whoever works on it makes the same one."""
        subject = principal.caller.subject
        task = asyncio.create_task(_recorded(record), name="record")
        self._following[subject].add(task)
        task.add_done_callback(lambda done: self._followed(subject, done))

    def _followed(self, subject: str, task: asyncio.Task[None]) -> None:
        self._following[subject].discard(task)
        if not self._following[subject]:
            del self._following[subject]

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """One at a time, for checks that the store cannot make."""
        lock = self._turns.get(key)
        if lock is None:
            lock = self._turns[key] = asyncio.Lock()
        async with lock:
            yield

    def marks(self, request: Request, principal: SignedInUser, body: bytes) -> Marks | None:
        """Return the marks of the request's Idempotency-Key. Raises Invalid."""
        return marks_of(request, (principal.caller.subject, principal.tenant_uid), body, self.facade.mark_key)

    async def answer_plan(
        self, request: Request, principal: SignedInUser, write: Write, refuse: Callable[[Planned], None] = lambda planned: None
    ) -> None:
        """Answer `?dryRun=true` with the plan of a write; else return once `If-Plan` is seen to hold. Nothing is done.

        The plan and its digest cover only what the caller may read. refuse: raises what the request would be refused with
        after its write was made. Raises PlanAnswered, what the write raises, and Conflict when the plan has moved.
        """
        dry, wanted = flag(request, "dryRun"), wanted_plan(request)
        if not dry and not wanted:
            return

        async def edit(what_if: WhatIf, settle: Settle) -> Remarks:
            packages = what_if.ports.hands(Ref("", "", "")).packages
            await write(WriteContext(what_if.store, what_if.cache, packages, self.writes.sources, Turns(what_if.cache, 0)))
            return Remarks()

        planned = await self.plan_edit(request, principal, edit)
        refuse(planned)

        def answer() -> Response:
            check_plan(wanted, planned)
            return json_response(planned.to_json())

        response = await off_the_loop(planned.size, answer)
        if dry:
            raise PlanAnswered(response)

    async def plan_edit(self, request: Request, principal: SignedInUser, edit: Edit, wanted: str = "") -> Planned:
        """Return the plan of an edit, as far as the caller may read. Raises Conflict if it is not the wanted one."""
        tenant = "" if principal.superuser else principal.caller.tenant
        planned = await self.plan(request, principal, lambda: self.facade.plan(edit, tenant))
        await off_the_loop(planned.size, lambda: check_plan(wanted, planned))
        return planned

    async def make(
        self, request: Request, principal: SignedInUser, write: Callable[[WriteContext], Awaitable[T]], turn: str = ""
    ) -> T:
        """Make a write, one at a time with others of its turn.

        Raises PlanAnswered for `?dryRun=true`, Conflict when `If-Plan` does not hold, and what the write raises.
        """
        await self.answer_plan(request, principal, write)
        async with self.turn(turn) if turn else nullcontext():
            return await write(self.writes)

    async def plan(self, request: Request, principal: SignedInUser, work: Callable[[], Coroutine[Any, Any, Planned]]) -> Planned:
        """Make a plan when its caller's tenant has no other under way. It ends when the caller leaves, and after PLAN_S.

        To be called with the body read. Raises ClientDisconnect, Halt (PlanTooLong).
        """

        async def in_turn() -> Planned:
            async with self.turn(f"plan {principal.caller.tenant or principal.caller.subject}"):
                try:
                    async with asyncio.timeout(PLAN_S):
                        return await work()
                except TimeoutError as error:
                    raise Halt(Transient("PlanTooLong", f"the plan takes longer than {PLAN_S:g} s; try a part of it")) from error

        return await while_connected(request, in_turn())

    async def wait_if_preferred(self, request: Request, operation: str, document: Document) -> bool:
        """Waits for the Operation of a write as long as `Prefer: wait=N` asks; did it?"""
        seconds = preferred_wait(request)
        if seconds:
            await carried_out(self.cache, operation, document, seconds)
        return bool(seconds)

    def environment(self, row: Row) -> Environment:
        return cast(Environment, self.cache.resource(Ref(Environment.KIND, *row.name)))

    def tenant(self, row: Row) -> Tenant:
        return cast(Tenant, self.cache.resource(Ref(Tenant.KIND, *row.name)))

    def user(self, row: Row) -> User:
        return cast(User, self.cache.resource(Ref(User.KIND, *row.name)))

    def operation(self, row: Row) -> Operation:
        return cast(Operation, self.cache.resource(Ref(Operation.KIND, *row.name)))


async def _recorded(record: Coroutine[Any, Any, object]) -> None:
    try:
        await record
    except Halt as halt:
        log.warning("not recorded by who took the request", error=str(halt))


def _writes(facade: Facade) -> WriteContext:
    """Return the context of writes; a source that takes writes gets those of its declarations."""
    return WriteContext(
        DeclaringStore.over(facade.store, facade.writers), facade.cache, facade.packages, facade.writers, Turns(facade.cache)
    )


async def _plan(request: Request, error: Exception) -> Response:
    assert isinstance(error, PlanAnswered)
    return error.response


def answer_plans(app: Starlette) -> None:
    """Answers `?dryRun=true` of a write with its plan."""
    app.add_exception_handler(PlanAnswered, _plan)
