"""A platform on a Git repository behind its REST interface, for tests: no socket, the real git command, one remote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.api.app import create_app
from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import Ref
from tenantry.model.verdicts import NotFound
from tenantry.runtime.following.feed import SourceFeed
from tenantry.settings import GitRepositorySettings, Settings
from tests.scenario.repositories import Remote
from tests.scenario.rest_world import BASE, PASSWORD, declare_user

API = "apiVersion: tenantry.dev/v1alpha1\n"
REGION = f"{API}kind: Region\nmetadata: {{name: eu}}\n"
ACME = f"""# Acme, our first customer.
---
{API}kind: Tenant
metadata:
  name: acme
spec:
  displayName: Acme   # as they write it
"""
DEV = f"""{API}kind: Environment
metadata: {{name: dev, namespace: tenant-acme}}
spec:
  region: eu          # near them
  displayName: "Dev"  # for people

  # nobody works at night
  slug: dev
"""


@dataclass
class World:
    """The platform, the feed of its source, the remote, and a client of `root`, a SUPERUSER."""

    platform: Platform
    feed: SourceFeed
    remote: Remote
    http: httpx.AsyncClient
    headers: dict[str, str]

    async def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self.headers, **options.pop("headers", {})}
        where = path if path.startswith("/engines") else f"/api/v1{path}"
        return await self.http.request(method, where, headers=headers, **options)

    async def sync(self) -> None:
        await self.feed.sync()
        await self.platform.converged()

    async def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        try:
            return dict(await self.platform.state.writing.get(Ref(kind, namespace, name)))
        except NotFound:
            return None

    async def id_of(self, path: str, slug: str) -> str:
        found = [each["id"] for each in (await self("GET", path)).json() if each["slug"] == slug]
        assert found, f"no {slug} at {path}"
        return str(found[0])

    def told(self, ref: str = "main") -> str:
        """Author, committer and message of the newest commit of a branch."""
        return self.remote.git("log", "-1", "--format=%an <%ae>%n%cn%n%B", ref)


@asynccontextmanager
async def git_world(state: Path, remote: Remote, tail: str = "@main", **git: Any) -> AsyncIterator[World]:
    """The source is read once, and whenever it is asked for; the remote is not polled."""
    settings = Settings(state=state, git=GitRepositorySettings(**{"interval": timedelta(hours=1), "write_back": "branch", **git}))
    platform = await Platform.open(state, BASE, settings=settings)
    try:
        feed = platform.attach(parse_git_url(remote.url(tail)), "default")
        await platform.start()
        await platform.converged()
        if await platform.state.store.list("User") and not any(
            each["metadata"]["name"] == "root" for each in (await platform.state.store.list("User"))[0]
        ):
            await declare_user(platform, "root", "SUPERUSER")
        transport = httpx.ASGITransport(create_app(platform.facade), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
            form = {"username": "root", "password": PASSWORD}
            token = (await http.post("/api/v1/auth/token", data=form)).json()["access_token"]
            yield World(platform, feed, remote, http, {"Authorization": f"Bearer {token}"})
    finally:
        await platform.close()
