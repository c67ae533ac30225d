"""Regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import RegionBody
from tenantry.api.reading.answers import list_answer, listing_answer
from tenantry.api.reading.body_cache import Scope, listing_of
from tenantry.kinds.region.spec import Region
from tenantry.model.resource import Ref
from tenantry.rest.routes import PAGED, TAGGED, Route


class Regions:
    """GET /regions."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/regions", self.list, 200, list[RegionBody], (400,), PAGED, TAGGED)]

    async def list(self, request: Request) -> Response:
        """List the regions; for a tenant's users those that the tenant may use."""
        context = self._context
        principal = await context.enter(request)
        if principal.superuser:
            return list_answer(request, context.regions, Scope())
        rows = context.regions.listing(Scope()).rows
        regions = ((row, cast(Region, context.cache.resource(Ref(Region.KIND, *row.name)))) for row in rows)
        name, uid = principal.caller.tenant, principal.tenant_uid
        return listing_answer(request, listing_of([row for row, region in regions if region.allows(name, uid)]))
