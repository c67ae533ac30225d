"""A platform on which Sources are declared: no socket, the real git command, repositories on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import RECONCILE_REQUESTED, Ref
from tenantry.model.verdicts import Conflict, NotFound
from tenantry.settings import OutboundSettings, Settings
from tests.scenario.rest_world import BASE
from tests.support.waiting import eventually

API_VERSION = "tenantry.dev/v1alpha1"
SYSTEM = "tenantry-system"
ON_ITS_WAY = ("Syncing", "ObjectsWaiting")


@dataclass
class World:
    """The platform, whose Sources are asked for: their intervals are an hour."""

    platform: Platform
    asked: int = 0

    async def declare(self, kind: str, name: str, namespace: str = "", **spec: Any) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        await self.platform.state.writing.create({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})

    async def source(self, url: str, name: str = "platform", namespace: str = SYSTEM, **spec: Any) -> None:
        await self.declare("Source", name, namespace, **{"url": url, "branch": "main", "interval": "1h", **spec})

    async def secret(self, name: str, namespace: str, label: str = "source", **values: str) -> None:
        labels = {"tenantry.dev/credential": label} if label else {}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}
        await self.platform.state.writing.create(self.platform.state.admission.admit(document, None))

    async def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        try:
            return dict(await self.platform.state.writing.get(Ref(kind, namespace, name)))
        except NotFound:
            return None

    async def edit(self, ref: Ref, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        while True:
            document = await self.platform.state.writing.get(ref)
            metadata = document["metadata"]
            edited = {**metadata, "annotations": {**metadata.get("annotations", {}), **(annotations or {})}}
            written = {**document, "metadata": edited, "spec": {**document["spec"], **spec}}
            try:
                await self.platform.state.writing.replace(written, metadata["resourceVersion"])
            except Conflict:  # its pass wrote the status meanwhile
                continue
            return

    async def synced(self, name: str = "platform", namespace: str = SYSTEM) -> dict[str, Any]:
        """The status of a Source once it was read again, and what it applied has come to rest."""
        self.asked += 1
        await self.edit(Ref("Source", namespace, name), {RECONCILE_REQUESTED: str(self.asked)})
        status = await self.until(name, namespace, lambda told: told.get("lastHandledReconcileAt") == str(self.asked))
        await self.platform.runtime.idle(1)
        return status

    async def until_gone(self, ref: Ref) -> None:
        found: dict[str, Any] | None = None

        async def is_gone() -> bool:
            nonlocal found
            found = await self.get(ref.kind, ref.name, ref.namespace)
            return found is None

        await eventually(is_gone, shows=lambda: found)

    async def until(
        self, name: str, namespace: str, holds: Callable[[dict[str, Any]], bool] = lambda status: True
    ) -> dict[str, Any]:
        """The status of a Source at rest, for which that holds."""
        status: dict[str, Any] = {}

        async def is_at_rest() -> bool:
            nonlocal status
            found = await self.get("Source", name, namespace)
            status = found["status"] if found else {}
            return ready(status).get("reason", "Syncing") not in ON_ITS_WAY and holds(status)

        await eventually(is_at_rest, shows=lambda: status)
        return status


def ready(status: dict[str, Any]) -> dict[str, Any]:
    """The condition Ready."""
    return next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), {})


def reason(status: dict[str, Any]) -> str:
    return str(ready(status)["reason"])


@asynccontextmanager
async def source_world(state: Path, **outbound: Any) -> AsyncIterator[World]:
    """A running platform without a source of its own."""
    settings = Settings(state=state, outbound=OutboundSettings(**outbound))
    platform = await Platform.open(state, BASE, settings=settings)
    try:
        await platform.start()
        yield World(platform)
    finally:
        await platform.close()
