"""The facade: both REST interfaces over one store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.cloud.environments import Environments
from tenantry.api.cloud.operations import Operations
from tenantry.api.cloud.packages import PackageBytes
from tenantry.api.cloud.regions import Regions
from tenantry.api.cloud.sign_in import SignIn
from tenantry.api.cloud.tenants import Tenants
from tenantry.api.cloud.users import Users
from tenantry.api.engine_admin import EngineAdmins, answer_plans
from tenantry.api.facade import Facade
from tenantry.api.front import Front
from tenantry.api.observing import Counting, Observing
from tenantry.api.routes import add_routes, describe_paths
from tenantry.rest.docs import serve_docs
from tenantry.rest.engine_routes import engine_router
from tenantry.rest.problems import answer_problems
from tenantry.rest.release import release_label

API = "/api/v1"
ENGINES = "/engines/{environmentId}/api/v1"


def create_app(facade: Facade) -> FastAPI:
    """The ASGI application. Its state is the front's alone: several may live in one process."""
    front = Front(facade)
    app = FastAPI(title="Tenantry", version=release_label(), docs_url=None, redoc_url=None, redirect_slashes=False)
    observing = Observing(front)
    sign_in = SignIn(front)
    add_routes(app, API, "environments", Environments(front).routes())
    add_routes(app, API, "operations", Operations(front).routes())
    add_routes(app, API, "auth", sign_in.routes())
    add_routes(app, API, "regions", Regions(front).routes())
    add_routes(app, API, "tenants", Tenants(front).routes())
    add_routes(app, API, "users", Users(front).routes())
    add_routes(app, API, "packages", PackageBytes(front).routes())
    app.include_router(engine_router(EngineAdmins(front).of, facade.uploads), prefix=ENGINES)
    _add_plain(app, "/.well-known/jwks.json", sign_in.jwks)
    _add_plain(app, "/healthz", observing.healthz)
    _add_plain(app, "/readyz", observing.readyz)
    _add_plain(app, "/metrics", observing.metrics)
    answer_problems(app)
    answer_plans(app)
    app.add_middleware(Counting, observing=observing)
    serve_docs(app)
    describe_paths(app)
    return app


def _add_plain(app: FastAPI, path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
    options: dict[str, Any] = {"include_in_schema": False, "response_model": None}
    app.add_api_route(path, endpoint, **options)
