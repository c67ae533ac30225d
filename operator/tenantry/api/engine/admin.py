"""The engine management interface of one environment, over the store: reads from the cache, writes by declaring."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from tenantry.api import tenancy
from tenantry.api.engine.apps import Apps
from tenantry.api.engine.engine_request import EngineRequest
from tenantry.api.engine.identities import Identities
from tenantry.api.engine.providers import Providers
from tenantry.api.facade_context import FacadeContext
from tenantry.ports import EngineAdmin
from tenantry.rest.bodies import invalid

READS = frozenset({"GET", "HEAD"})


class EngineAdmins:
    """The handler of requests to /engines/{environmentId}."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    async def of(self, request: Request) -> EngineAdmin:
        """The environment's. Raises Unauthorized, NotFound, Forbidden, Invalid (it is being deleted), in this order."""
        context = self._context
        principal = await context.enter(request)
        row = tenancy.environment(context, principal, request.path_params["environmentId"])
        environment = context.environment(row)
        if request.method not in READS:
            principal.require_writer()
            if environment.deleting:
                raise invalid("", "the environment is being deleted")
        tenant = context.owners.of_namespace(environment.metadata.namespace)
        if tenant is None:
            raise invalid("", "the environment's namespace belongs to no tenant")
        return StoreEngineAdmin(EngineRequest(context, request, principal, environment, tenant))


@dataclass(frozen=True)
class StoreEngineAdmin(Apps, Identities, Providers):
    """ports.EngineAdmin over App, Package, Identity and IdentityProvider resources, for one request."""
