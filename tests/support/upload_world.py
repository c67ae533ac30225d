"""A platform that takes uploads, for tests that break them off."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tenantry.packages.build import build
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import MANIFEST
from tests.scenario.serving import serving

API = "/api/v1/admin/apps"


class World(NamedTuple):
    """A served engine. signed: the header of its admin; body: a whole multipart upload of the package."""

    folder: Path
    engine: Engine
    url: str
    signed: dict[str, str]
    package: bytes
    body: bytes

    @property
    def typed(self) -> dict[str, str]:
        return {**self.signed, "Content-Type": "multipart/form-data; boundary=B"}

    def left(self) -> set[str]:
        """Every file of the engine but its database and keys, and of the folder of uploads."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and "engine.db" not in path.name)
        return {path.name for path in found if path.name not in ("key.jwk", "secret.key")}

    async def upload(self) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            return await client.post(f"{API}/upload", content=self.body, headers=self.typed)


def packed(folder: Path, size: int = 300_000) -> bytes:
    source = folder / "source"
    (source / "content").mkdir(parents=True)
    (source / "app.yaml").write_text(MANIFEST)
    (source / "content" / "large.bin").write_bytes(random.Random(3).randbytes(size))
    build(source, folder / "crm.tapp")
    return (folder / "crm.tapp").read_bytes()


def form(package: bytes) -> bytes:
    return b'--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + package + b"\r\n--B--\r\n"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    package = packed(tmp_path)
    folder = tmp_path / "engine"
    (folder / "incoming").mkdir(parents=True)
    async with AsyncExitStack() as stack:
        engine = await Engine.open(folder)
        stack.push_async_callback(engine.close)
        await engine.set_admin_password(Password(clear="the admin's password"))
        served = Served(engine, folder / "key.jwk")
        token = await served.issue(*await engine.identity((await engine.identities())[0].id))
        app = engine_app(lambda request: served, Uploads(folder / "incoming"))
        url = await stack.enter_async_context(serving(app))
        yield World(folder, engine, url, {"Authorization": f"Bearer {token}"}, package, form(package))
