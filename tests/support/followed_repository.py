"""A platform that follows a Git repository."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.opening import console_of
from tenantry.hosts.console.local import LocalConsole
from tenantry.model.resource import Ref
from tenantry.runtime.following.feed import SourceFeed
from tenantry.settings import GitRepositorySettings, Settings

API = "apiVersion: tenantry.dev/v1alpha1\n"
REGION = f"{API}kind: Region\nmetadata: {{name: eu}}\n"


def tenant(name: str, display: str = "", annotations: str = "") -> str:
    return f"{API}kind: Tenant\nmetadata: {{name: {name}{annotations}}}\nspec: {{displayName: {display or name}}}\n"


def environment(name: str = "dev") -> str:
    return f"{API}kind: Environment\nmetadata: {{name: {name}, namespace: tenant-acme}}\nspec: {{region: eu}}\n"


@dataclass
class World:
    """A platform on a repository. sync: looks at the remote and lets everything come to rest."""

    platform: Platform
    feed: SourceFeed
    console: LocalConsole

    async def sync(self) -> None:
        await self.feed.sync()
        await self.platform.converged()

    async def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        return dict(await self.console.get(Ref(kind, namespace, name)))

    async def names(self, kind: str) -> list[str]:
        return [each["metadata"]["name"] for each in await self.console.list(kind)]

    def problems(self) -> list[str]:
        return [str(problem) for problem in self.feed.last.problems]


@asynccontextmanager
async def following(state: Path, url: str, name: str = "default", **git: Any) -> AsyncIterator[World]:
    """The source is read once; its changes are not followed but by `sync`, unless the interval says so."""
    settings = Settings(state=state, git=GitRepositorySettings(**{"interval": timedelta(hours=1), **git}))
    platform = await Platform.open(state, "http://127.0.0.1:1", settings=settings)
    try:
        feed = platform.attach(parse_git_url(url), name)
        await platform.start()
        await platform.converged()
        yield World(platform, feed, console_of(platform, "http://127.0.0.1:1", name))
    finally:
        await platform.close()
