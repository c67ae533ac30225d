"""The page that publishes a package in an environment: what it declares and its plan first, then exactly that plan."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.engine.publishing import LARGEST, PackagePublishing, uploaded
from tenantry.console.http.pages import redirect
from tenantry.console.http.sessions import BASE
from tenantry.console.reading.rights import Rights, find
from tenantry.console.routes.calling import Call
from tenantry.console.routes.shell import PageShell, refused
from tenantry.console.texts import TEXTS
from tenantry.console.views.actions import PUBLISH, ActionPlan, check_verb, plan_values, refusal
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import PackageFacts
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt
from tenantry.rest.bodies import JSON_LIMIT, invalid


class ShownPackage(NamedTuple):
    """A package that was chosen. content: its bytes in base64; plan: None if it cannot be read."""

    content: str
    facts: PackageFacts
    plan: ActionPlan


class Publishing:
    """GET shows the form. POST shows what the chosen file declares and its plan, or carries that plan out."""

    def __init__(self, shell: PageShell) -> None:
        self._shell = shell
        self._packages = PackagePublishing(shell.context)

    async def show(self, request: Request) -> Response:
        """Show the form, or why the server would refuse it."""
        principal, environment = await self._found(request)
        return self._page(request, principal, environment)

    async def send(self, request: Request) -> Response:
        """Show the plan of a file, or carry it out if it was shown and still holds."""
        form = await self._shell.sessions.form(request, LARGEST * 4 // 3 + JSON_LIMIT)
        principal, environment = await self._found(request)
        try:
            principal.require_writer()
            content = form.get("file", "") or form.get("package", "")
            raw = _decoded(content)
            facts = await self._packages.facts(environment, raw)
            call = self._call(environment, raw)
            if form.get("act") != "do":
                shown = ShownPackage(content, facts, await call.plan(request))
                return self._page(request, principal, environment, shown)
            try:
                await call.make(request, if_plan=form.get("plan", "") or "none")
            except Halt as halt:
                shown = ShownPackage(content, facts, await call.plan(request))
                return self._page(request, principal, environment, shown, form, *refused(halt))
        except Halt as halt:
            return self._page(request, principal, environment, None, {}, *refused(halt))
        return redirect(f"{BASE}/{Environment.PLURAL}/{environment.metadata.uid}")

    async def _found(self, request: Request) -> tuple[SignedInUser, Environment]:
        principal = await self._shell.sessions.principal(request)
        found = find(self._shell.cache, Rights.of(principal), Environment.KIND, request.path_params["id"])
        check_verb(found, PUBLISH)
        assert isinstance(found, Environment)
        return principal, found

    def _call(self, environment: Environment, raw: bytes) -> Call:
        return Call(self._shell.sessions, "POST", self._packages.publish, environment.id, *uploaded(raw))

    def _page(
        self, request: Request, principal: SignedInUser, environment: Environment, shown: ShownPackage | None = None,
        form: Mapping[str, str] | None = None, error: str = "", status: int = 200,
    ) -> Response:  # fmt: skip
        values = {
            "one": environment,
            "shown": shown,
            "refusal": refusal(Rights.of(principal), Environment.KIND),
            "largest": LARGEST >> 20,
            "error": error,
            "places": self._shell.places([_app(environment, shown.facts.app)] if shown is not None else ()),
            **plan_values(shown.plan if shown is not None else ActionPlan(), form or {}),
        }
        title = f"{TEXTS[PUBLISH]} {environment.metadata.name}"
        return self._shell.still(request, principal, title, Environment.PLURAL, "publish.html", values, status)


def _app(environment: Environment, app: str) -> Document:
    """The App that a package is published in, as far as it decides where it is declared."""
    name, namespace = environment.metadata.name, environment.metadata.namespace
    return {"kind": App.KIND, "metadata": {"name": f"{name}.{app}", "namespace": namespace}, "spec": {"environment": name}}


def _decoded(content: str) -> bytes:
    """The bytes of a chosen file. Raises Invalid."""
    try:
        return base64.b64decode(content, validate=True)
    except ValueError:
        raise invalid("file", "is not what this page sent; choose the file again") from None
