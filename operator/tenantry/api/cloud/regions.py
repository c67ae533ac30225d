"""Regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.answers import list_answer, listing_answer
from tenantry.api.bodies import RegionBody
from tenantry.api.fragments import Scope, listing_of
from tenantry.api.front import Front
from tenantry.api.routes import PAGED, TAGGED, Route
from tenantry.kinds.region.spec import Region
from tenantry.model.resource import Ref


class Regions:
    """GET /regions."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/regions", self.list, 200, list[RegionBody], (400,), PAGED, TAGGED)]

    async def list(self, request: Request) -> Response:
        """List the regions; for a tenant's users those that the tenant may use."""
        front = self._front
        principal = await front.enter(request)
        if principal.superuser:
            return list_answer(request, front.regions, Scope())
        rows = front.regions.listing(Scope()).rows
        regions = ((row, cast(Region, front.cache.resource(Ref(Region.KIND, *row.name)))) for row in rows)
        name, uid = principal.caller.tenant, principal.tenant_uid
        return listing_answer(request, listing_of([row for row, region in regions if region.allows(name, uid)]))
