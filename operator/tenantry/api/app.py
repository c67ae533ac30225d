"""The facade: both REST interfaces over one store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.cloud.environments import Environments
from tenantry.api.cloud.operations import Operations
from tenantry.api.cloud.packages import PackageBytes
from tenantry.api.cloud.plans import Plans
from tenantry.api.cloud.regions import Regions
from tenantry.api.cloud.sign_in import SignIn
from tenantry.api.cloud.tenants import Tenants
from tenantry.api.cloud.users import Users
from tenantry.api.engine.admin import EngineAdmins
from tenantry.api.facade import Facade
from tenantry.api.facade_context import FacadeContext, answer_plans
from tenantry.api.platform.blobs import add_blobs
from tenantry.api.platform.observing import Counting, Observing
from tenantry.api.reading.answers import answer_proposals
from tenantry.api.reading.read_fast_path import Direct, DirectReads
from tenantry.api.webhooks import DeclaredWebhooks, Webhooks, add_webhook
from tenantry.rest.apps.described import RestApp, add_routes
from tenantry.rest.apps.home import serve_home
from tenantry.rest.docs.api_page import serve_api_page
from tenantry.rest.docs.site import serve_site
from tenantry.rest.engine.routes import engine_routes
from tenantry.rest.fairness.arrivals import Arrivals
from tenantry.rest.problems import answer_problems
from tenantry.rest.routes import Route

API = "/api/v1"
DIRECT = ("environments", "operations", "regions", "tenants")
ENGINES = "/engines/{environmentId}/api/v1"


def create_app(facade: Facade, add_pages: Callable[[FastAPI, FacadeContext], None] | None = None) -> FastAPI:
    """The ASGI application. Its state is the context's alone: several may live in one process. add_pages: the console."""
    context = FacadeContext(facade)
    observing = Observing(context)
    sign_in = SignIn(context)
    rooms = {
        "environments": Environments(context).routes(),
        "operations": Operations(context).routes(),
        "auth": sign_in.routes(),
        "regions": Regions(context).routes(),
        "tenants": Tenants(context).routes(),
        "users": Users(context).routes(),
        "packages": PackageBytes(context).routes(),
        "plans": Plans(context).routes(),
    }
    direct = _direct([route for tag in DIRECT for route in rooms[tag]])
    app = RestApp("Tenantry", lambda inner: Arrivals(Counting(DirectReads(inner, **direct), facade.requests)))
    for tag, routes in rooms.items():
        add_routes(app, routes, tag, API, errors=(401,), names=f"{tag}-")
    engines = [_planned(route) for route in engine_routes(EngineAdmins(context).of, facade.uploads)]
    add_routes(app, engines, "engine", ENGINES, errors=(400, 401, 403, 404, 412, 500))
    serve_home(app, "/console/" if add_pages else "")
    _add_plain(app, "/.well-known/jwks.json", sign_in.jwks)
    _add_plain(app, "/healthz", observing.healthz)
    _add_plain(app, "/readyz", observing.readyz)
    add_webhook(app, Webhooks(facade.webhook, DeclaredWebhooks(facade.cache, facade.store, facade.secrets, facade.now)))
    answer_problems(app)
    answer_plans(app)
    answer_proposals(app)
    add_blobs(app, facade.packages, facade.logs, facade.uploads, facade.keys)
    serve_api_page(app)
    serve_site(app)
    if add_pages is not None:
        add_pages(app, context)
    return app


def _direct(routes: Sequence[Route]) -> dict[str, dict[str, Direct]]:
    """The lists and single objects among the routes, as DirectReads takes them."""
    gets = [route for route in routes if route.method == "GET"]
    reads = {API + route.path: Direct(API + route.path, route.endpoint, route.parameters) for route in gets}
    items = {path.removesuffix("/{id}"): direct for path, direct in reads.items() if path.endswith("/{id}")}
    return {"lists": {path: direct for path, direct in reads.items() if "{" not in path}, "items": items}


def _planned(route: Route) -> Route:
    """A route of the engine as the facade serves it: a write declares, so that it can be planned and repeated."""
    if route.method == "GET":
        return route
    return route._replace(query=(*route.query, "dryRun"), headers=(*route.headers, "Idempotency-Key", "If-Plan"))


def _add_plain(app: FastAPI, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
    options: dict[str, Any] = {"include_in_schema": False, "response_model": None}
    app.add_api_route(path, endpoint, **options)
