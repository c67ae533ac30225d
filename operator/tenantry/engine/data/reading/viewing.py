"""/admin/tenantry/rows: rows of apps for the console. Only the operator may ask; the facade says to whom it shows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from tenantry.engine.data.exposure import READS_ALL, Exposure
from tenantry.engine.data.routes import list_routes
from tenantry.engine.data.signing import DataEngine
from tenantry.engine.records import HeldIdentity
from tenantry.rest.bodies import json_response
from tenantry.rest.engine.extension import PREFIX
from tenantry.rest.leaving import while_connected
from tenantry.rest.routes import JSON, Route

ROWS = f"{PREFIX}/rows"


@dataclass(frozen=True)
class Viewer:
    """RowCaller for which the operator asks: it may read every table, and write none."""

    @property
    def identity(self) -> tuple[str, str]:
        """Nobody has to be found."""
        return "", ""

    def roles_of(self, held: HeldIdentity | None) -> Mapping[str, str]:
        """Return what no identity can be granted."""
        return READS_ALL

    async def proven(self) -> Viewer:
        """Return the viewer itself: the operator was verified when the request came."""
        return self


def viewing_routes(operator_of: Callable[[Request], Awaitable[DataEngine]], folder: Path) -> list[Route]:
    """Return the routes, without the prefix /api/v1. operator_of: lets only the operator through; folder: as of the data API."""

    async def signed(request: Request) -> tuple[DataEngine, Viewer]:
        return await operator_of(request), Viewer()

    async def tables(request: Request, app: str) -> Response:
        """List the tables of an installed app."""
        engine, viewer = await signed(request)
        found = await while_connected(request, engine.rows.run(app, viewer, lambda _, exposure, roles: _tables(exposure)))
        return json_response({"data": found})

    return [Route("GET", f"{ROWS}/{{app}}", tables, 200, JSON), *list_routes(f"{ROWS}/{{app}}/{{table}}", signed, folder)]


def _tables(exposure: Exposure) -> list[dict[str, object]]:
    return [
        {"name": table.name, "columns": [column.name for column in table.columns], "key": list(table.primary_key)}
        for table in exposure.manifest.tables
    ]
