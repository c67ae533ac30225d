"""The places of an engine that the attacks on its interface run over. The app `crm` is installed in each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenantry.engine.service import Engine
from tests.scenario.data_world import MANIFEST, engine_with_app
from tests.scenario.postgres import database_url
from tests.support.pooled_engines import tenants_in_a_pool

PLACES = ("sqlite", *(pytest.param(place, marks=pytest.mark.slow) for place in ("pool", "pool on a server", "postgresql")))


@asynccontextmanager
async def engine_at(
    place: str, folder: Path, request: pytest.FixtureRequest, manifest: str = MANIFEST
) -> AsyncIterator[tuple[Engine, str]]:
    """The engine and its URL. In a pool the same app of another tenant stands beside it, and keeps its rows."""
    if place.startswith("pool"):
        server = request.getfixturevalue("pool_server") if place == "pool on a server" else None
        async with tenants_in_a_pool(folder, manifest, server) as tenants:
            yield await tenants.engine(), tenants.base()
        return
    url = database_url(request.getfixturevalue("server")) if place == "postgresql" else None
    async with engine_with_app(folder, url, manifest) as both:
        yield both
