"""The console: pages over the facade's cache, on every host. Its rights and its writes are those of REST."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.one_time_codes import OneTimeCodes
from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.assets import ASSETS
from tenantry.console.http.pages import redirect
from tenantry.console.http.sessions import BASE, Sessions
from tenantry.console.reading.freshness import Freshness
from tenantry.console.reading.rights import Rights
from tenantry.console.routes.acting import Acting
from tenantry.console.routes.entering import Entering
from tenantry.console.routes.forming import Forming
from tenantry.console.routes.issuers import IssuerSignIn
from tenantry.console.routes.live import LiveUpdates
from tenantry.console.routes.planning import PATH as PLAN
from tenantry.console.routes.planning import Planning
from tenantry.console.routes.publishing import Publishing
from tenantry.console.routes.removed import PATH as REMOVED
from tenantry.console.routes.removed import Removed
from tenantry.console.routes.screens import Screens
from tenantry.console.routes.shell import Endpoint, PageShell
from tenantry.console.routes.viewing import Viewing
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tenantry.rest.apps.plain import PlainApp

STORED = Ref("Namespace", "", SYSTEM_NAMESPACE)
"""An object of every store, read to see whether the store answers."""


class Pages:
    """The pages that show what is."""

    def __init__(self, shell: PageShell) -> None:
        self._shell = shell

    async def page(self, request: Request) -> Response:
        """The fleet, a list or an object."""
        principal, screens = await self._shell.sessions.principal(request), self._shell.screens
        if screens.freshness is not None:
            await screens.freshness.first_look()
        path = request.path_params.get("path", "")
        return self._shell.whole(request, principal, await screens.show(Rights.of(principal), path, request.query_params))

    async def file(self, request: Request) -> Response:
        """A style or a script."""
        return ASSETS.answer(request.path_params["name"], request.path_params["version"])

    async def start(self, request: Request) -> Response:
        """The address without its slash."""
        return redirect(f"{BASE}/")


def add_console(app: PlainApp, context: FacadeContext, codes: OneTimeCodes | None = None) -> None:
    """Add the console's pages to an application. codes: of `tenantry up`. They are no part of its OpenAPI description."""
    facade = context.facade
    freshness = Freshness(partial(facade.store.get, STORED), facade.interrupted, facade.now)
    sessions, screens = Sessions(context), Screens(context, freshness)
    shell = PageShell(context, sessions, screens)
    pages, entering = Pages(shell), Entering(shell, codes)
    issuers = IssuerSignIn(context, sessions, entering.refuse)
    acting, forming, planning = Acting(shell), Forming(shell), Planning(shell)
    publishing, removed = Publishing(shell), Removed(shell)
    table: tuple[tuple[str, str, Endpoint], ...] = (
        ("GET", BASE, pages.start),
        ("GET", f"{BASE}/sign-in", entering.form),
        ("POST", f"{BASE}/sign-in", entering.sign_in),
        ("GET", f"{BASE}/sign-in/{{issuer}}", issuers.begin),
        ("GET", f"{BASE}/callback", issuers.finish),
        ("GET", f"{BASE}/enter", entering.code),
        ("POST", f"{BASE}/sign-out", entering.sign_out),
        ("GET", f"{BASE}/live", LiveUpdates(context, sessions, screens).stream),
        ("GET", f"{BASE}/static/{{version}}/{{name}}", pages.file),
        ("GET", f"{BASE}/{PLAN}", planning.show),
        ("POST", f"{BASE}/{PLAN}", planning.send),
        ("GET", f"{BASE}/{REMOVED}", removed.list),
        ("GET", f"{BASE}/{REMOVED}/{{id}}", removed.plan),
        ("POST", f"{BASE}/{REMOVED}/{{id}}", removed.act),
        ("GET", f"{BASE}/apps/{{id}}/rows", Viewing(shell).show),
        ("GET", f"{BASE}/{{plural}}/new", forming.show),
        ("POST", f"{BASE}/{{plural}}/new", forming.send),
        ("GET", f"{BASE}/{{plural}}/{{id}}/edit", forming.show),
        ("POST", f"{BASE}/{{plural}}/{{id}}/edit", forming.send),
        ("GET", f"{BASE}/environments/{{id}}/publish", publishing.show),
        ("POST", f"{BASE}/environments/{{id}}/publish", publishing.send),
        ("GET", f"{BASE}/{{plural}}/{{id}}/{{verb}}", acting.plan),
        ("POST", f"{BASE}/{{plural}}/{{id}}/{{verb}}", acting.act),
        ("GET", f"{BASE}/{{path:path}}", pages.page),
    )
    for method, path, endpoint in table:
        guard = shell.answering if endpoint == pages.file else shell.guarded
        app.serve(method, path, guard(endpoint))
