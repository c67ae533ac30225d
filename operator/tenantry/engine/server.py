"""The server of engines: the engine management interface, sign-in, the apps' static files, health and /docs."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantry.engine.access import Served, ServedEngine, admin_of, data_caller_of, operator_of
from tenantry.engine.content import content_response
from tenantry.engine.data.routes import data_rows
from tenantry.engine.principal import Principal
from tenantry.model.verdicts import NotFound
from tenantry.ports import EngineAdmin
from tenantry.rest.bodies import json_response
from tenantry.rest.docs import serve_docs
from tenantry.rest.engine_extension import extension_router
from tenantry.rest.engine_routes import Row, engine_router, router_of
from tenantry.rest.problems import answer_problems
from tenantry.rest.release import release_label
from tenantry.rest.sign_in import PASSWORD_GRANT, TokenResponse, password_grant
from tenantry.rest.throttle import address_of
from tenantry.rest.uploads import Uploads

API = "/api/v1"


class EngineMe(BaseModel):
    """Who is signed in at an engine. role: ADMIN or USER."""

    sub: str
    username: str
    role: str


class SignInProvider(BaseModel):
    """An identity provider that signs in, and where."""

    id: str
    name: str
    url: str


class ProviderList(BaseModel):
    """The identity providers that sign in."""

    data: list[SignInProvider]


def engine_app(served_of: Callable[[Request], Served], uploads: Uploads) -> FastAPI:
    """The ASGI application of one engine, or of as many as `served_of` tells apart by the request."""
    app = FastAPI(title="Tenantry engine", version=release_label(), docs_url=None, redoc_url=None, redirect_slashes=False)
    answer_problems(app)

    async def administrator(request: Request) -> EngineAdmin:
        return await admin_of(served_of(request), request)

    async def operator(request: Request) -> EngineAdmin:
        return await operator_of(served_of(request), request)

    async def data_caller(request: Request) -> tuple[ServedEngine, Principal]:
        return await data_caller_of(served_of(request), request)

    app.include_router(engine_router(administrator, uploads), prefix=API)
    app.include_router(extension_router(operator, uploads), prefix=API)
    app.include_router(_sign_in_router(served_of), prefix=API)
    app.include_router(router_of(data_rows(data_caller), "data"), prefix=API)
    app.include_router(_external_router(served_of))
    app.include_router(_public_router(served_of))
    serve_docs(app)
    return app


def _sign_in_router(served_of: Callable[[Request], Served]) -> APIRouter:
    async def token(request: Request) -> Response:
        """Sign in with a username and a password."""
        served = served_of(request)
        form = await password_grant(request)
        identity = await served.sign_in(form.username, form.password, address_of(request))
        answer = TokenResponse(access_token=await served.issue(identity))
        return json_response(answer.model_dump(), headers={"Cache-Control": "no-store"})

    async def me(request: Request) -> Response:
        """Tell who is signed in."""
        principal = await served_of(request).caller(request)
        role = "ADMIN" if principal.administers else "USER"
        return json_response({"sub": principal.id, "username": principal.username, "role": role})

    rows = [
        Row("POST", "/auth/token", token, TokenResponse, PASSWORD_GRANT),
        Row("GET", "/auth/me", me, EngineMe),
    ]
    return router_of(rows, "sign-in")


def _external_router(served_of: Callable[[Request], Served]) -> APIRouter:
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

    rows = [
        Row("GET", "/auth/login", providers, ProviderList),
        Row("GET", "/auth/login/{id}", login, status=303),
        Row("GET", "/auth/callback", callback, status=303),
        Row("POST", "/auth/logout", logout, status=204),
    ]
    return router_of(rows, "sign-in")


def _public_router(served_of: Callable[[Request], Served]) -> APIRouter:
    router = APIRouter(redirect_slashes=False)

    async def healthz() -> Response:
        return json_response({"status": "ok"})

    async def readyz(request: Request) -> Response:
        await served_of(request).engine.apps()
        return json_response({"status": "ok"})

    async def app_root(request: Request, id: str) -> Response:
        return RedirectResponse(f"{request.url.path}/", 308)

    async def app_file(request: Request, id: str, path: str) -> Response:
        folder = await served_of(request).engine.content(id)
        if folder is None:
            raise NotFound(f"no app {id} with content is installed")
        return await content_response(request, folder, path)

    router.add_api_route("/healthz", healthz, include_in_schema=False)
    router.add_api_route("/readyz", readyz, include_in_schema=False)
    router.add_api_route("/apps/{id}", app_root, include_in_schema=False)
    router.add_api_route("/apps/{id}/{path:path}", app_file, include_in_schema=False)
    return router
