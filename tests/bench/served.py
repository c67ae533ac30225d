"""A platform with many environments, served as `up` serves it: uvicorn on loopback TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.issuing import issuer
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.serving import serving
from tests.scenario.rest_world import declare, declare_user

TENANT = "acme"


@dataclass(frozen=True)
class Served:
    """token: of an ADMIN of the tenant; environments: their ids."""

    platform: Platform
    port: int
    token: str
    environments: tuple[str, ...]


@asynccontextmanager
async def platform(state: Path, environments: int) -> AsyncIterator[Served]:
    """A Region, a Tenant with an ADMIN, and so many READY environments of it."""
    bound = listening("127.0.0.1", 0)
    running = await Platform.open(state, url_of(bound))
    try:
        await running.start()
        await declare(running, "Region", "here", {})
        await declare(running, "Tenant", TENANT, {})
        await declare_user(running, "ann", "ADMIN", TENANT)
        await running.converged()
        spec: dict[str, Any] = {"region": "here", "engine": {"size": "small"}}
        names = [f"env-{number}" for number in range(environments)]
        namespace = f"tenant-{TENANT}"
        await asyncio.gather(*(declare(running, "Environment", name, spec | {"displayName": name}, namespace) for name in names))
        await running.converged()
        ids = tuple(each.id for each in running.state.cache.resources("Environment") if each.ready)
        assert len(ids) == environments
        token = await issuer(running)("ann", timedelta(hours=1))
        async with serving(running.http, bound):
            yield Served(running, bound.getsockname()[1], token, ids)
    finally:
        await running.close()


@asynccontextmanager
async def port_of(app: ASGIApp) -> AsyncIterator[int]:
    """The port on which the application is served, in the same way."""
    bound = listening("127.0.0.1", 0)
    async with serving(app, bound):
        yield bound.getsockname()[1]
