"""A platform whose Source takes writes: its remote, and a client of REST."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.app import create_app
from tests.scenario.git.source_world import SYSTEM, World, reason, source_world
from tests.scenario.git_world import ACME, DEV, REGION
from tests.scenario.repositories import Remote
from tests.scenario.rest_world import BASE, PASSWORD, declare_user

BRANCH = {"mode": "Branch"}
HOME = "tenant-acme"
HOOK = "#!/bin/sh\necho 'main is protected: open a pull request' >&2\nexit 1\n"


@dataclass
class WriteContext:
    """The platform, its remote, and a client of `root`, a SUPERUSER."""

    world: World
    remote: Remote
    http: httpx.AsyncClient
    headers: dict[str, str]

    async def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self.headers, **options.pop("headers", {})}
        return await self.http.request(method, f"/api/v1{path}", headers=headers, **options)

    async def id_of(self, path: str, slug: str) -> str:
        return next(str(each["id"]) for each in (await self("GET", path)).json() if each["slug"] == slug)

    async def rename(self, slug: str, name: str) -> httpx.Response:
        return await self("PUT", f"/environments/{await self.id_of('/environments', slug)}", json={"name": name})

    async def create(self, slug: str) -> httpx.Response:
        tenant = await self.id_of("/tenants", "acme")
        return await self("POST", f"/environments?tenantId={tenant}", json={"name": slug, "slug": slug, "region": "eu"})

    def url(self) -> str:
        return f"file://{self.remote.folder}"

    def shown(self, path: str, ref: str = "main") -> str:
        return self.remote.git("show", f"{ref}:{path}") + "\n"

    def paths(self) -> list[str]:
        return self.remote.git("ls-tree", "-r", "--name-only", "main").splitlines()

    async def owner(self, kind: str, name: str, namespace: str = "") -> str:
        """The owner of the object; the label is written together with the commit that it shows."""
        document = await self.world.get(kind, name, namespace)
        assert document is not None
        return str(document["metadata"].get("labels", {}).get("tenantry.dev/source", ""))


@asynccontextmanager
async def writing(state: Path, remote: Remote, **outbound: Any) -> AsyncIterator[WriteContext]:
    async with source_world(state, **outbound) as world:
        await declare_user(world.platform, "root", "SUPERUSER")
        transport = httpx.ASGITransport(create_app(world.platform.facade), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
            form = {"username": "root", "password": PASSWORD}
            token = (await http.post("/api/v1/auth/token", data=form)).json()["access_token"]
            yield WriteContext(world, remote, http, {"Authorization": f"Bearer {token}"})


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "served" / "platform.git")
    made.commit({"p/eu.yaml": REGION, "p/acme.yaml": ACME, "p/dev.yaml": DEV})
    return made


@pytest.fixture
async def at(tmp_path: Path, remote: Remote) -> AsyncIterator[WriteContext]:
    async with writing(tmp_path / "state", remote) as made:
        yield made


async def follows(at: WriteContext, name: str = "platform", namespace: str = SYSTEM, **spec: Any) -> None:
    await at.world.source(spec.pop("url", at.url()), name, namespace, **{"path": "p", "writeBack": BRANCH, **spec})
    status = await at.world.until(name, namespace)
    assert reason(status) == "Succeeded", status
