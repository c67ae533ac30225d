"""The server of engines: the engine management interface, sign-in, the apps' static files, health and /docs/api/."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Scope

from tenantry.engine.access import Served, ServedEngine, admin_of, data_caller_of, operator_of
from tenantry.engine.content import content_response
from tenantry.engine.data.counting import CountedRequests
from tenantry.engine.data.direct import DirectRows
from tenantry.engine.data.fast_rows import FastRows
from tenantry.engine.data.reading.viewing import viewing_routes
from tenantry.engine.data.routes import data_rows
from tenantry.engine.principal import RowCaller
from tenantry.model.measures import RequestMeasures
from tenantry.model.verdicts import Forbidden, NotFound
from tenantry.ports import EngineAdmin
from tenantry.rest.answers import AnswerNow, LateAnswer, ReadyAnswer
from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.auth.sign_in import PASSWORD_GRANT, TokenResponse, password_grant
from tenantry.rest.auth.throttle import address_of
from tenantry.rest.bodies import AnswerBody, json_response
from tenantry.rest.engine.extension import PREFIX, extension_routes
from tenantry.rest.engine.routes import AdminOf, engine_routes
from tenantry.rest.routes import JSON, Query, Route, RouteTable
from tenantry.rest.uploads import Uploads

API = "/api/v1"


ERRORS = (400, 401, 403, 404, 500)
"""The statuses with which a request of a signed-in user may be refused."""


class EngineMe(AnswerBody):
    """The signed-in user of an engine."""

    sub: str = Field(description="The id of the user.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    username: str = Field(description="The username.", examples=["mia"])
    role: Literal["ADMIN", "USER"] = Field(description="ADMIN administers the engine. USER reads and writes rows.")


class SignInProvider(AnswerBody):
    """An identity provider that signs in, and where."""

    id: str = Field(description="The id of the provider.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    name: str = Field(description="The name that people read.", examples=["Company sign-in"])
    url: str = Field(
        description="The address that begins the sign-in.", examples=["https://crm.example.com/api/v1/auth/login/c8a1b6de"]
    )


class ProviderList(AnswerBody):
    """The identity providers that sign in."""

    data: list[SignInProvider] = Field(description="The providers.")


class EngineServer(PlainApp):
    """The ASGI application of engines. fast: its frequent requests; answer_now: answers those of one engine."""

    def __init__(
        self, fast: FastRows, answer_now: AnswerNow, tables: Sequence[RouteTable], outer: Callable[[ASGIApp], ASGIApp]
    ) -> None:
        super().__init__("Tenantry engine", tables, outer)
        self.fast, self.answer_now = fast, answer_now


def engine_app(served_of: Callable[[Request], Served], uploads: Uploads, measures: RequestMeasures | None = None) -> EngineServer:
    """Return the ASGI application of one engine, or of all engines that `served_of` distinguishes by the request.

    measures: counts the requests.
    """
    requests = measures or RequestMeasures()

    async def administrator(request: Request) -> EngineAdmin:
        return await admin_of(served_of(request), request)

    async def data_caller(request: Request) -> tuple[ServedEngine, RowCaller]:
        return await data_caller_of(served_of(request), request)

    async def data_caller_again(request: Request) -> tuple[ServedEngine, RowCaller]:
        served = served_of(request)
        return served.engine, await served.data_caller(request)

    def counted(request: Request) -> Served:
        served = served_of(request)
        served.quota.admit()
        return served

    rows, fast = data_rows(data_caller, data_caller_again, uploads.folder), FastRows(f"{API}/data/", requests)

    def now(scope: Scope) -> ReadyAnswer | LateAnswer | None:
        return fast.at_root(scope, served_of(Request(scope)))

    tables = (
        RouteTable(engine_routes(administrator, uploads), "engine", API, ERRORS),
        RouteTable(_of_operator(served_of, uploads, requests), "operator", API, ERRORS),
        RouteTable(_sign_in_routes(counted), "sign-in", API, (401,)),
        RouteTable(rows, "data", API, ERRORS),
        RouteTable(_external_routes(counted), "sign-in"),
    )
    app = EngineServer(fast, now, tables, lambda inner: DirectRows(CountedRequests(inner, requests), rows, API, requests, now))
    _add_public(app, served_of, counted)
    return app


def _of_operator(served_of: Callable[[Request], Served], uploads: Uploads, requests: RequestMeasures) -> list[Route]:
    """Return what only the platform's operator may ask."""

    async def operator(request: Request) -> EngineAdmin:
        return await operator_of(served_of(request), request)

    return [*extension_routes(operator, uploads), *_viewing(served_of, uploads), _use(operator, requests)]


def _use(operator: AdminOf, requests: RequestMeasures) -> Route:
    async def use(request: Request) -> Response:
        """Tell for how long nobody used the engines of this process."""
        await operator(request)
        return json_response({"unused_s": requests.unused_s})

    return Route("GET", f"{PREFIX}/use", use, 200, JSON)


def _viewing(served_of: Callable[[Request], Served], uploads: Uploads) -> list[Route]:
    async def viewed(request: Request) -> ServedEngine:
        served = served_of(request)
        if not (await served.principal(request)).operator:
            raise Forbidden("only the platform's operator may ask this")
        return served.engine

    return viewing_routes(viewed, uploads.folder)


NEXT = Query("next", "The path of this engine that the browser goes to afterwards. Default: /api/v1/auth/me.")
CALLBACK = (
    Query("state", "The mark of the sign-in that the browser began."),
    Query("code", "What the provider's token endpoint takes."),
    Query("error", "Why the provider refuses the sign-in."),
)
"""The parameters of a provider's answer that are read. Providers send more: iss, session_state, scope."""


def _sign_in_routes(served_of: Callable[[Request], Served]) -> list[Route]:
    async def token(request: Request) -> Response:
        """Sign in with a username and a password."""
        served = served_of(request)
        form = await password_grant(request)
        identity, stamp = await served.sign_in(form.username, form.password, address_of(request))
        answer = TokenResponse(access_token=await served.issue(identity, stamp))
        return json_response(answer.model_dump(), headers={"Cache-Control": "no-store"})

    async def me(request: Request) -> Response:
        """Tell who is signed in."""
        principal = await served_of(request).caller(request)
        role = "ADMIN" if principal.administers else "USER"
        return json_response({"sub": principal.id, "username": principal.username, "role": role})

    return [
        Route("POST", "/auth/token", token, 200, TokenResponse, (400, 401), body=PASSWORD_GRANT, public=True),
        Route("GET", "/auth/me", me, 200, EngineMe),
    ]


def _external_routes(served_of: Callable[[Request], Served]) -> list[Route]:
    async def providers(request: Request) -> Response:
        """List the identity providers that sign in, and where."""
        return await served_of(request).external.providers(request)

    async def login(request: Request, id: str) -> Response:
        """Send the browser to an identity provider."""
        return await served_of(request).external.begin(request, id)

    async def callback(request: Request) -> Response:
        """Take the browser back from an identity provider, signed in."""
        return await served_of(request).external.finish(request)

    async def logout(request: Request) -> Response:
        """Sign the browser out."""
        return await served_of(request).external.end(request)

    return [
        Route("GET", "/auth/login", providers, 200, ProviderList, public=True),
        Route("GET", "/auth/login/{id}", login, 303, None, query=(NEXT,), public=True),
        Route("GET", "/auth/callback", callback, 303, None, query=CALLBACK, public=True, open=True),
        Route("POST", "/auth/logout", logout, 204, None, public=True),
    ]


def _add_public(app: PlainApp, served_of: Callable[[Request], Served], counted: Callable[[Request], Served]) -> None:
    async def healthz(request: Request) -> Response:
        return json_response({"status": "ok"})

    async def readyz(request: Request) -> Response:
        engine = served_of(request).engine
        await engine.check_whole()
        await engine.apps()
        return json_response({"status": "ok"})

    async def app_root(request: Request, id: str) -> Response:
        return RedirectResponse(f"{request.url.path}/", 308)

    async def app_file(request: Request, id: str, path: str) -> Response:
        folder = await counted(request).engine.content(id)
        if folder is None:
            raise NotFound(f"no app {id} with content is installed")
        return await content_response(request, folder, path)

    app.serve("GET", "/healthz", healthz)
    app.serve("GET", "/readyz", readyz)
    app.serve("GET", "/apps/{id}", app_root)
    app.serve("GET", "/apps/{id}/{path:path}", app_file)
