"""The page of plans: declarations that a person types, their plan, and exactly that plan carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.cloud.declarations import AppliedText, TypedDeclarations
from tenantry.console.reading.rights import PLURALS, Rights, find
from tenantry.console.routes.shell import PageShell, refused
from tenantry.console.texts import TEXTS
from tenantry.console.views.declaring import declaration_text, installing_text
from tenantry.console.views.plans import TypedText, plan_page, typed_for
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Halt
from tenantry.rest.bodies import invalid
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.sources.applied import source_of_name

PATH = "plan"


class Planning:
    """GET shows the form. POST shows the plan of what was typed, or carries out the plan that was shown."""

    def __init__(self, shell: PageShell) -> None:
        self._shell = shell
        self._declarations = TypedDeclarations(shell.context)

    async def show(self, request: Request) -> Response:
        """Show the form. Raises Forbidden for who may not write."""
        principal = await self._shell.sessions.principal(request)
        principal.require_writer()
        return await self._page(request, principal, TypedText(self._given(request, Rights.of(principal))), None, None)

    def _given(self, request: Request, rights: Rights) -> str:
        """The text to begin with: the declaration of an object, or that of an app with another version. Raises NotFound."""
        cache, query = self._shell.cache, request.query_params
        if "edit" in query:
            plural, _, id_ = query["edit"].partition("/")
            return declaration_text(cache.document(find(cache, rights, PLURALS.get(plural, ""), id_).ref) or {})
        if "app" not in query:
            return ""
        app = cast(App, find(cache, rights, App.KIND, query["app"]))
        environment = query.get("environment", "")
        to = cast("Environment | None", find(cache, rights, Environment.KIND, environment) if environment else None)
        return installing_text(cache, app, to, query.get("version", ""))

    async def send(self, request: Request) -> Response:
        """Show the plan, or carry it out if it was shown and still holds."""
        form = await self._shell.sessions.form(request)
        principal = await self._shell.sessions.principal(request)
        principal.require_writer()
        typed = TypedText.of(form)
        if typed.branch:
            return await self._branch(request, principal, typed)
        tree = await self._declarations.read(typed.text)
        if tree.problems or not tree.documents:
            error = "" if tree.problems else TEXTS["plan_nothing"]
            return await self._page(request, principal, typed, tree, None, 400, error)
        planned = await self._planned(request, principal, typed, tree)
        if form.get("act") != "do" or typed.source:
            return await self._page(request, principal, typed._replace(digest=""), tree, planned)
        if typed.name != typed_for(planned):
            return await self._page(request, principal, typed, tree, planned, 400, TEXTS["type_the_name"])
        try:
            applied = await self._declarations.apply(request, principal, tree, typed.digest)
        except Halt as halt:
            error, status = refused(halt)
            return await self._page(request, principal, typed, tree, planned, status, error)
        return await self._page(request, principal, TypedText(), tree, None, applied=applied)

    async def _branch(self, request: Request, principal: SignedInUser, typed: TypedText) -> Response:
        """Show the plan of a Source with another branch. It is carried out by a merge, not from here."""
        try:
            source = source_of_name(self._shell.cache, typed.source)
            if source is None or not Rights.of(principal).sees(source):
                raise invalid("source", TEXTS["plan_branch_of"])
            tree, planned = await self._declarations.plan_branch(request, principal, source, typed.branch)
        except Halt as halt:
            error, status = refused(halt)
            return await self._page(request, principal, typed, None, None, status, error)
        return await self._page(request, principal, typed, tree, planned)

    async def _planned(self, request: Request, principal: SignedInUser, typed: TypedText, tree: Tree) -> Planned:
        if typed.source:
            return await self._declarations.plan_as(request, principal, tree, typed.source)
        return await self._declarations.plan(request, principal, tree)

    async def _page(
        self, request: Request, principal: SignedInUser, typed: TypedText, tree: Tree | None, planned: Planned | None,
        status: int = 200, error: str = "", applied: Sequence[AppliedText] = (),
    ) -> Response:  # fmt: skip
        reading = await self._shell.screens.reading(Rights.of(principal))
        values = plan_page(reading, typed, tree, planned, error, applied)
        values["places"] = self._shell.places(each.document for each in tree.documents) if tree is not None else []
        return self._shell.still(request, principal, TEXTS["plans"], PATH, "plan.html", values, status)
