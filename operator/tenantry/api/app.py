"""The facade: both REST interfaces over one store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from tenantry.rest.apps.home import serve_home
from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.engine.routes import engine_routes
from tenantry.rest.fairness.arrivals import Arrivals
from tenantry.rest.routes import Route, RouteTable

API = "/api/v1"
DIRECT = ("environments", "operations", "regions", "tenants")
ENGINES = "/engines/{environmentId}/api/v1"


def create_app(facade: Facade, add_pages: Callable[[PlainApp, FacadeContext], None] | None = None) -> PlainApp:
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
    engines = [_planned(route) for route in engine_routes(EngineAdmins(context).of, facade.uploads)]
    tables = [RouteTable(routes, tag, API, (401,)) for tag, routes in rooms.items()]
    tables.append(RouteTable(engines, "engine", ENGINES, (400, 401, 403, 404, 412, 500)))
    app = PlainApp("Tenantry", tables, lambda inner: Arrivals(Counting(DirectReads(inner, **direct), facade.requests)))
    serve_home(app, "/console/" if add_pages else "")
    app.serve("GET", "/.well-known/jwks.json", sign_in.jwks)
    app.serve("GET", "/healthz", observing.healthz)
    app.serve("GET", "/readyz", observing.readyz)
    add_webhook(app, Webhooks(facade.webhook, DeclaredWebhooks(facade.cache, facade.store, facade.secrets, facade.now)))
    answer_plans(app)
    answer_proposals(app)
    add_blobs(app, facade.packages, facade.logs, facade.uploads, facade.keys)
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
