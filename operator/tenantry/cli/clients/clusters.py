"""A cluster as client commands see it: with the rights of the kubeconfig, and packages by REST."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.kubernetes.client.credentials import find_credentials
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.backups import ClusterBackups
from tenantry.adapters.kubernetes.engines.inventory import held_engines
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.overlay.packages import NoLogs
from tenantry.adapters.sources.git.url import is_git_url
from tenantry.cli.arguments.choosing import ClusterChoice
from tenantry.cli.arguments.configuration import load
from tenantry.cli.clients.planning_over_rest import plan_over_rest
from tenantry.cli.clients.pushing import push_over_rest
from tenantry.cli.clients.reading import applied_within, read_through
from tenantry.cli.output.failing import Failure
from tenantry.hosts.console.approving import check_holds
from tenantry.hosts.console.local import LocalConsole
from tenantry.hosts.console.protocol import About, Approved, Console
from tenantry.hosts.standalone import fill
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.registry import CONTENTS, TYPES
from tenantry.model.facts import EngineRef, PackageFacts
from tenantry.model.resource import Document
from tenantry.model.verdicts import Forbidden
from tenantry.packages.check import inspect
from tenantry.ports import Feed
from tenantry.rest.release import release_label
from tenantry.runtime.cache import Cache
from tenantry.runtime.environment_declaration import declared_of
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.sources.pruning import Kept

TENANT_PATIENCE_S = 30.0
"""Seconds that the tenant of a package may take to appear."""
PAUSE_S = 0.5


@asynccontextmanager
async def cluster_console(choice: ClusterChoice) -> AsyncIterator[Console]:
    """Its console. At the end of the block the packages that were stored through it are pushed. Raises Failure, Halt."""
    client = Client(find_credentials(choice.kubeconfig, choice.context))
    try:
        with tempfile.TemporaryDirectory(prefix="tenantry-") as folder:
            packages = PushedPackages(await asyncio.to_thread(FolderBlobs, Path(folder), inspect))
            about = About(release_label(), f"cluster {choice.context or 'of the current context'}", _server() or "kubernetes")
            store, feed = KubernetesStore(client), KubernetesFeed(client)
            settings = load().backups
            key = ArchiveKey(settings.key_file or _own_key())
            backups = ClusterBackups(client, partial(_declared, feed), key, Path(folder), settings.keys)
            console = LocalConsole(about, store, feed, packages, NoLogs(), _plan, _no_token, acts_for="", archives=backups)
            console.applies = partial(_apply_plan, console)
            console.holds = partial(held_engines, client)
            yield console
            await packages.push()
    finally:
        await client.close()


@dataclass
class PushedPackages:
    """ports.Packages that keeps files aside until the Tenants that they are for are declared, then pushes them by REST."""

    scratch: FolderBlobs
    _waiting: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        facts = await self.scratch.put(tenant, package, checked)
        self._waiting.setdefault(tenant, []).append((facts.sha256, f"{facts.app} {facts.version}"))
        return facts

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self.scratch.inspect(tenant, sha256)

    async def fetch(self, tenant: str, sha256: str) -> Path:
        return await self.scratch.fetch(tenant, sha256)

    async def remove(self, tenant: str, sha256: str) -> None:
        await self.scratch.remove(tenant, sha256)

    async def remove_all(self, tenant: str) -> None:
        await self.scratch.remove_all(tenant)

    async def push(self) -> None:
        """Raises Failure naming what is missing, or what the api says."""
        if self._waiting and not (_server() and _token()):
            names = ", ".join(name for waiting in self._waiting.values() for _, name in waiting)
            raise Failure(f"packages are pushed over REST: set TENANTRY_SERVER and TENANTRY_TOKEN, then repeat this for {names}")
        for tenant, waiting in self._waiting.items():
            for sha256, _ in waiting:
                await self._push(tenant, await self.scratch.fetch(tenant, sha256))

    async def _push(self, tenant: str, file: Path) -> None:
        deadline = time.monotonic() + TENANT_PATIENCE_S
        facts = await asyncio.to_thread(inspect, file)
        while True:
            try:
                return await asyncio.to_thread(push_over_rest, file, facts, tenant, _server(), _token())
            except Failure:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(PAUSE_S)


async def _declared(feed: Feed, ref: EngineRef) -> Sequence[Document]:
    cache = Cache(TYPES)
    for kind in (Environment.KIND, *CONTENTS):
        await fill(feed, cache, kind)
    return declared_of(cache, ref)


def _own_key() -> Path:
    """Return the path of the key that signs this person's archives."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tenantry" / KEY_FILE


def _server() -> str:
    return os.environ.get("TENANTRY_SERVER", "")


def _token() -> str:
    return os.environ.get("TENANTRY_TOKEN", "")


async def _plan(*_: object) -> Planned:
    raise Failure(
        "a plan reads engines, and only the platform has their keys: set TENANTRY_SERVER and TENANTRY_TOKEN to reach its api"
    )


async def _apply_plan(console: Console, approved: Approved) -> tuple[Kept, ...]:
    """The plan is made anew by the api; if it holds, the files are applied. Nothing is waited for."""
    if not _server():
        await _plan()
    report = await asyncio.to_thread(plan_over_rest, approved.source, approved.name, _server(), _token())
    check_holds(approved, report.digest, report.changes, report.problems)
    if is_git_url(approved.source):
        raise Forbidden("the platform that follows a repository applies it: merge the change, or give a checkout with -f")
    if any(step.sign == "-" for step in report.steps):
        raise Forbidden("the plan prunes, and only the platform that follows the source prunes: merge the change")
    for each in (await read_through(console, Path(approved.source))).documents:
        await applied_within(console, each.document, running=True)
    return ()


async def _no_token(username: str, ttl: timedelta) -> str:
    raise Failure("the api of a cluster issues its tokens: POST /api/v1/auth/token with username and password")
