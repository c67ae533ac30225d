"""What the routes of the facade share, composed once from its dependencies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakValueDictionary

import structlog
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.authentication import Authenticator, Principal
from tenantry.api.facade import Facade
from tenantry.api.fragments import Fragments, Row
from tenantry.api.owners import Owners
from tenantry.api.preconditions import Marks, check_plan, marks_of, wanted_plan
from tenantry.api.queueing import carried_out, preferred_wait
from tenantry.api.rendering import Renderer
from tenantry.api.routes import flag
from tenantry.api.turns import Turns
from tenantry.api.versions import Versions
from tenantry.api.writes import Desk
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt
from tenantry.rest.bodies import json_response
from tenantry.runtime.plan import Remarks, Settle, WhatIf
from tenantry.runtime.planned import Planned
from tenantry.runtime.write_back import DeclaringStore

Write = Callable[[Desk], Awaitable[object]]

log = structlog.get_logger(__name__)


class Front:
    """Who may see what, as which bytes, and how writes are made."""

    def __init__(self, facade: Facade) -> None:
        cache = facade.cache
        self.facade = facade
        self.cache = cache
        self.desk = _desk(facade)
        self.owners = Owners(cache)
        self.authenticator = Authenticator(facade.keys, cache, facade.secrets, facade.now, facade.trusted)
        self.versions = Versions(cache)
        self.renderer = renderer = Renderer(cache, facade.preview, facade.provider)
        self.regions = Fragments(cache, Region.KIND, renderer.region)
        self.tenants = Fragments(cache, Tenant.KIND, renderer.tenant)
        self.environments = Fragments(cache, Environment.KIND, renderer.environment, renderer.environments_affected)
        self.operations = Fragments(cache, Operation.KIND, renderer.operation, newest_first=True)
        self.users = Fragments(cache, User.KIND, renderer.user, renderer.users_affected)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._following: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        """By subject: records of writes that were answered already."""

    async def enter(self, request: Request) -> Principal:
        """Who sends the request; returns once the cache is as far as the request asks, and has what the same caller's earlier
        requests recorded. Raises Unauthorized, Invalid."""
        principal = await self.authenticator.principal(request)
        await self._caught_up(request, principal)
        return principal

    async def enter_superuser(self, request: Request) -> Principal:
        """The same for a SUPERUSER's routes. Raises Forbidden for other roles, before anything else is looked at."""
        principal = await self.authenticator.principal(request)
        principal.require_superuser()
        await self._caught_up(request, principal)
        return principal

    async def _caught_up(self, request: Request, principal: Principal) -> None:
        await self.versions.reached(request)
        if following := self._following.get(principal.caller.subject):
            await asyncio.wait(following)

    def follow(self, principal: Principal, record: Coroutine[Any, Any, object]) -> None:
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

    def marks(self, request: Request, principal: Principal, body: bytes) -> Marks | None:
        """What an Idempotency-Key makes of the request. Raises Invalid."""
        return marks_of(request, (principal.caller.subject, principal.tenant_uid), body, self.facade.mark_key)

    async def planned(
        self, request: Request, principal: Principal, write: Write, refuse: Callable[[Planned], None] = lambda planned: None
    ) -> Response | None:
        """For `?dryRun=true` what the write would do, as PlanResponse; else None, once `If-Plan` is seen to hold.

        The plan and its digest cover only what the caller may read.

        Nothing is done. Raises what the write raises, and Conflict when the plan has moved. refuse: raises what the request
        would be refused with after its write was made.
        """
        dry, wanted = flag(request, "dryRun"), wanted_plan(request)
        if not dry and not wanted:
            return None

        async def edit(what_if: WhatIf, settle: Settle) -> Remarks:
            packages = what_if.seat.hands(Ref("", "", "")).packages
            await write(Desk(what_if.store, what_if.cache, packages, self.desk.sources, Turns(what_if.cache, 0)))
            return Remarks()

        planned = await self.facade.plan(edit, "" if principal.superuser else principal.caller.tenant)
        refuse(planned)
        check_plan(wanted, planned)
        return json_response(planned.to_json()) if dry else None

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


def _desk(facade: Facade) -> Desk:
    """What a source declares is written through it, where it takes writes."""
    return Desk(
        DeclaringStore.over(facade.store, facade.writers), facade.cache, facade.packages, facade.writers, Turns(facade.cache)
    )
