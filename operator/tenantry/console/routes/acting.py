"""Actions: the plan of one, and the action itself by the function that serves REST."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import orjson
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.cloud.environments import Environments
from tenantry.api.cloud.operations import Operations
from tenantry.api.cloud.tenants import Tenants
from tenantry.api.cloud.users import Users
from tenantry.api.platform.backups import EnvironmentBackups
from tenantry.api.platform.reconcile_controls import ReconcileControls
from tenantry.console.http.pages import redirect
from tenantry.console.http.sessions import BASE
from tenantry.console.reading.rights import PLURALS, Rights, find
from tenantry.console.routes.calling import Call, Endpoint
from tenantry.console.routes.shell import PageShell, refused
from tenantry.console.texts import TEXTS
from tenantry.console.views.actions import BACK_UP, CANCEL, DELETE, WAKE, check_verb, confirmation, redeclares, typed
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.resource import Resource
from tenantry.model.verdicts import Halt, NotFound

Found = Resource[Any, Any]


class Acting:
    """GET shows the plan of an action, POST carries out exactly that plan."""

    def __init__(self, shell: PageShell) -> None:
        self._shell = shell
        context = shell.context
        self._endpoints: dict[tuple[str, str], tuple[str, Endpoint]] = {
            (Environment.KIND, DELETE): ("DELETE", Environments(context).delete),
            (Environment.KIND, WAKE): ("POST", Environments(context).wake),
            (Tenant.KIND, DELETE): ("DELETE", Tenants(context).delete),
            (User.KIND, DELETE): ("DELETE", Users(context).delete),
            (Operation.KIND, CANCEL): ("POST", Operations(context).cancel),
        }
        self._controls, self._backups = ReconcileControls(context), EnvironmentBackups(context)

    async def plan(self, request: Request) -> Response:
        """Show what the action would do, or why the server would refuse it."""
        principal, found, verb = await self._found(request)
        return await self._page(request, principal, found, verb, {})

    async def act(self, request: Request) -> Response:
        """Carry the action out if its plan still holds."""
        form = await self._shell.sessions.form(request)
        principal, found, verb = await self._found(request)
        if form.get("name", "") != typed(found, verb):
            return await self._page(request, principal, found, verb, form, TEXTS["type_the_name"], 400)
        try:
            answer = await self._call(found, verb).make(request, if_plan=form.get("plan", ""))
        except Halt as halt:
            return await self._page(request, principal, found, verb, form, *refused(halt))
        if verb == BACK_UP:
            return answer
        operation = orjson.loads(bytes(answer.body)).get("operation_id", "")
        plural = type(found).PLURAL
        here = f"{BASE}/{plural}" if verb == DELETE else f"{BASE}/{plural}/{found.metadata.uid}"
        return redirect(f"{BASE}/operations/{operation}" if operation else here)

    async def _found(self, request: Request) -> tuple[SignedInUser, Found, str]:
        principal = await self._shell.sessions.principal(request)
        plural, id_, verb = (request.path_params[name] for name in ("plural", "id", "verb"))
        if plural not in PLURALS:
            raise NotFound(f"no page {request.url.path}")
        found = find(self._shell.cache, Rights.of(principal), PLURALS[plural], id_)
        check_verb(found, verb)
        return principal, found, verb

    async def _page(
        self, request: Request, principal: SignedInUser, found: Found, verb: str, form: dict[str, str], error: str = "",
        status: int = 200,
    ) -> Response:  # fmt: skip
        plan = await self._call(found, verb).plan(request)
        places = self._shell.places([self._shell.cache.document(found.ref) or {}]) if redeclares(found, verb) else []
        values = confirmation(found, verb, plan, form, error, places)
        title = f"{TEXTS[verb]} {found.metadata.name}"
        return self._shell.still(request, principal, title, type(found).PLURAL, "confirm.html", values, status)

    def _call(self, found: Found, verb: str) -> Call:
        steered: tuple[str, Endpoint] = ("PUT", partial(self._controls.change, found=found, verb=verb))
        if verb == BACK_UP:
            steered = ("POST", partial(self._backups.write, found=cast(Environment, found)))
        method, endpoint = self._endpoints.get((found.KIND, verb), steered)
        return Call(self._shell.sessions, method, endpoint, self._shell.context.owners.id_of(found))
