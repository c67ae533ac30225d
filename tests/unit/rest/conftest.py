from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import httpx
import pytest

from tenantry.engine.access import Served, ServedEngine
from tenantry.engine.server import engine_app
from tenantry.rest.uploads import Uploads
from tests.unit.rest.engine_double import EngineDouble

LIMIT = 4_000_000


@pytest.fixture
def double(tmp_path: Path) -> EngineDouble:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "content").mkdir()
    return EngineDouble(tmp_path)


@pytest.fixture
def served(double: EngineDouble, tmp_path: Path) -> Served:
    return Served(cast(ServedEngine, double), tmp_path / "token.jwk")


@pytest.fixture
async def client(served: Served, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Signed in as `admin`."""
    app = engine_app(lambda request: served, Uploads(tmp_path / "incoming", LIMIT))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", auth=("admin", "admin-password")) as client:
        yield client
