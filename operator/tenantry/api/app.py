"""The facade: both REST interfaces over one store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.answers import answer_proposals
from tenantry.api.blobs import add_blobs
from tenantry.api.cloud.environments import Environments
from tenantry.api.cloud.operations import Operations
from tenantry.api.cloud.packages import PackageBytes
from tenantry.api.cloud.plans import Plans
from tenantry.api.cloud.regions import Regions
from tenantry.api.cloud.sign_in import SignIn
from tenantry.api.cloud.tenants import Tenants
from tenantry.api.cloud.users import Users
from tenantry.api.direct import Direct, DirectReads
from tenantry.api.engine_admin import EngineAdmins, answer_plans
from tenantry.api.facade import Facade
from tenantry.api.front import Front
from tenantry.api.observing import Counting, Observing
from tenantry.api.routes import Route, add_routes, describe_paths
from tenantry.api.webhooks import DeclaredWebhooks, Webhooks, add_webhook
from tenantry.rest.docs import serve_docs
from tenantry.rest.engine_routes import engine_router
from tenantry.rest.problems import answer_problems
from tenantry.rest.release import release_label

API = "/api/v1"
DIRECT = ("environments", "operations", "regions", "tenants")
ENGINES = "/engines/{environmentId}/api/v1"


def create_app(facade: Facade) -> FastAPI:
    """The ASGI application. Its state is the front's alone: several may live in one process."""
    front = Front(facade)
    app = FastAPI(title="Tenantry", version=release_label(), docs_url=None, redoc_url=None, redirect_slashes=False)
    observing = Observing(front)
    sign_in = SignIn(front)
    rooms = {
        "environments": Environments(front).routes(),
        "operations": Operations(front).routes(),
        "auth": sign_in.routes(),
        "regions": Regions(front).routes(),
        "tenants": Tenants(front).routes(),
        "users": Users(front).routes(),
        "packages": PackageBytes(front).routes(),
        "plans": Plans(front).routes(),
    }
    for tag, routes in rooms.items():
        add_routes(app, API, tag, routes)
    app.include_router(engine_router(EngineAdmins(front).of, facade.uploads), prefix=ENGINES)
    _add_plain(app, "/.well-known/jwks.json", sign_in.jwks)
    _add_plain(app, "/healthz", observing.healthz)
    _add_plain(app, "/readyz", observing.readyz)
    _add_plain(app, "/metrics", observing.metrics)
    add_webhook(app, Webhooks(facade.webhook, DeclaredWebhooks(facade.cache, facade.store, facade.secrets, facade.now)))
    answer_problems(app)
    answer_plans(app)
    answer_proposals(app)
    app.add_middleware(DirectReads, **_direct([route for tag in DIRECT for route in rooms[tag]]))
    app.add_middleware(Counting, observing=observing)
    add_blobs(app, facade.packages, facade.logs, facade.uploads, facade.keys)
    serve_docs(app)
    describe_paths(app)
    return app


def _direct(routes: Sequence[Route]) -> dict[str, dict[str, Direct]]:
    """The lists and single objects among the routes, as DirectReads takes them."""
    reads = {API + route.path: Direct(API + route.path, route.endpoint) for route in routes if route.method == "GET"}
    items = {path.removesuffix("/{id}"): direct for path, direct in reads.items() if path.endswith("/{id}")}
    return {"lists": {path: direct for path, direct in reads.items() if "{" not in path}, "items": items}


def _add_plain(app: FastAPI, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
    options: dict[str, Any] = {"include_in_schema": False, "response_model": None}
    app.add_api_route(path, endpoint, **options)
