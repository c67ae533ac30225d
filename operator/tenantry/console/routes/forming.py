"""Forms that make and change Environments and Tenants: first the plan of what was typed, then exactly that plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import orjson
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.cloud.environments import Environments
from tenantry.api.cloud.tenants import Tenants
from tenantry.console.http.pages import redirect
from tenantry.console.http.sessions import BASE
from tenantry.console.reading.rights import PLURALS, Rights, find
from tenantry.console.routes.calling import Call, Endpoint
from tenantry.console.routes.shell import PageShell, refused
from tenantry.console.texts import TEXTS, kind_words
from tenantry.console.views.actions import EDIT, ActionPlan, check_verb, plan_values
from tenantry.console.views.forms import MADE, differences, elsewhere, fields_of, values_of
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Document, Ref, Resource
from tenantry.model.verdicts import Conflict, Halt, Invalid, NotFound, Problem

TYPED = ("name", "slug", "region")


class Editing(NamedTuple):
    """One use of a form. found: the object that is changed, None for a new one; form: what was sent, empty at first."""

    request: Request
    principal: SignedInUser
    kind: str
    found: Resource[Any, Any] | None
    form: Mapping[str, str]

    @property
    def title(self) -> str:
        """Its words."""
        what = kind_words(self.kind)[0] if self.found is None else self.found.metadata.name
        return f"{TEXTS['new' if self.found is None else 'edit']} {what}"


class Forming:
    """GET shows the form. POST shows the plan, or carries out the plan that was shown."""

    def __init__(self, shell: PageShell) -> None:
        self._shell = shell
        environments, tenants = Environments(shell.context), Tenants(shell.context)
        self._create: Mapping[str, Endpoint] = {Environment.KIND: environments.create, Tenant.KIND: tenants.create}
        self._edit: Mapping[str, Endpoint] = {Environment.KIND: environments.edit, Tenant.KIND: tenants.edit}

    async def show(self, request: Request) -> Response:
        """Show the form, empty or with what is."""
        editing = await self._editing(request, {})
        if editing.found is None:
            return await self._page(editing, {})
        given = values_of(editing.found)
        unchanged = await self._call(editing._replace(form=given)).plan(request)
        return await self._page(editing, given, refusal=unchanged.refusal)

    async def send(self, request: Request) -> Response:
        """Show the plan of what was typed, or carry it out if it was shown and still holds."""
        editing = await self._editing(request, await self._shell.sessions.form(request))
        form, call = editing.form, self._call(editing)
        match = {"if_match": f'"{form.get("generation", "")}"'} if editing.found is not None else {}
        try:
            if form.get("act") != "do" or not form.get("plan"):
                return await self._page(editing, form, await call.planned(request, **match))
            answer = await call.make(request, if_plan=form["plan"], **match)
        except Invalid as invalid:
            return await self._page(editing, form, status=400, problems=invalid.problems)
        except Conflict as conflict:
            return await self._stale(editing, call, conflict)
        except Halt as halt:
            told, status = refused(halt)
            return await self._page(editing, form, status=status, problems=(Problem("", told),))
        return redirect(f"{BASE}/{request.path_params['plural']}/{_id_of(orjson.loads(bytes(answer.body)))}")

    async def _stale(self, editing: Editing, call: Call, conflict: Conflict) -> Response:
        """The page with the changes since the form or its plan was shown, and with the new plan."""
        plan = await call.plan(editing.request, if_match="*")
        problems = (Problem("", plan.refusal or conflict.told),)
        return await self._page(editing, editing.form, None if plan.refusal else plan, 412, problems)

    async def _editing(self, request: Request, form: Mapping[str, str]) -> Editing:
        principal = await self._shell.sessions.principal(request)
        kind, id_ = PLURALS.get(request.path_params["plural"], ""), request.path_params.get("id", "")
        if kind not in MADE:
            raise NotFound(f"no page {request.url.path}")
        found = find(self._shell.cache, Rights.of(principal), kind, id_) if id_ else None
        if found is not None:
            check_verb(found, EDIT)
        principal.require_writer()
        if kind == Tenant.KIND:
            principal.require_superuser()
        return Editing(request, principal, kind, found, form)

    def _call(self, editing: Editing) -> Call:
        """The call of REST that the form stands for."""
        typed = {name: editing.form[name].strip() for name in TYPED if name in editing.form}
        if editing.found is not None:
            id_ = self._shell.context.owners.id_of(editing.found)
            return Call(self._shell.sessions, "PUT", self._edit[editing.kind], id_, orjson.dumps(typed))
        query = {}
        if name := editing.form.get("tenantId", "").strip():
            tenant = self._shell.cache.resource(Ref(Tenant.KIND, "", name))
            query["tenantId"] = self._shell.context.owners.id_of(cast(Tenant, tenant)) if tenant is not None else name
        return Call(self._shell.sessions, "POST", self._create[editing.kind], "", orjson.dumps(typed), **query)

    async def _page(
        self, editing: Editing, given: Mapping[str, str], plan: ActionPlan | None = None, status: int = 200,
        problems: Iterable[Problem] = (), refusal: str = "",
    ) -> Response:  # fmt: skip
        reading = await self._shell.screens.reading(Rights.of(editing.principal))
        found, problems = editing.found, tuple(problems)
        fields = fields_of(reading, editing.kind, given, problems, new=found is None)
        now = values_of(found) if found is not None else {}
        values = {
            "kind": editing.kind,
            "title": editing.title,
            "refusal": refusal,
            "found": found,
            "fields": fields,
            "errors": elsewhere(fields, problems),
            "was": now,
            "generation": found.metadata.generation if found is not None else "",
            "differences": differences(now, editing.form) if status == 412 else [],
            **plan_values(plan or ActionPlan(), editing.form if status == 412 else {}),
            "planned": plan is not None,
            "places": self._shell.places([self._document(editing)]),
        }
        plural = editing.request.path_params["plural"]
        return self._shell.still(editing.request, editing.principal, editing.title, plural, "form.html", values, status)

    def _document(self, editing: Editing) -> Document:
        """The object that is written; of a new one only what decides where it is declared."""
        if editing.found is not None:
            return self._shell.cache.document(editing.found.ref) or {}
        tenant = self._shell.cache.resource(Ref(Tenant.KIND, "", editing.form.get("tenantId", "").strip()))
        namespace = editing.principal.namespace or (tenant.bound_namespace if isinstance(tenant, Tenant) else "")
        metadata = {"name": "", "namespace": namespace if editing.kind == Environment.KIND else ""}
        return {"kind": editing.kind, "metadata": metadata, "spec": {}}


def _id_of(answer: Mapping[str, Any]) -> str:
    """The id of the object that was made or changed."""
    return str((answer.get("environment") or answer)["id"])
