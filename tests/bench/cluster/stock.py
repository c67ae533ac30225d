"""The reference of P2: an operator of stock kopf handlers, as kopf's own documentation teaches them, with default settings.

It makes the same objects as the platform, by the same client: `python -m tests.bench.cluster.stock API_URL`, with KUBECONFIG.
"""

from __future__ import annotations

import sys
from typing import Any

import kopf

from tenantry.adapters.kubernetes.client import Client
from tenantry.adapters.kubernetes.credentials import find_credentials
from tenantry.adapters.kubernetes.objects import path_of
from tenantry.adapters.kubernetes.workload import NAME, namespace_of
from tenantry.model.verdicts import NotFound
from tests.bench.cluster.place import Object
from tests.bench.cluster.records import Records

AGAIN_S = 0.5


class Handlers:
    """Of both kinds."""

    def __init__(self, api_url: str) -> None:
        self._client = Client(find_credentials())
        self._records = Records(self._client, api_url)

    def register(self) -> None:
        kopf.on.startup()(self._start)
        kinds = (("tenants", self._tenant, self._tenant_gone), ("environments", self._environment, self._environment_gone))
        for plural, made, gone in kinds:
            for on, handler in ((kopf.on.create, made), (kopf.on.update, made), (kopf.on.delete, gone)):
                on("tenantry.dev", "v1alpha1", plural, id=handler.__name__.strip("_"))(handler)

    async def _start(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True  # its account may not look at all definitions
        await self._records.open()

    async def _tenant(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        if await self._find("v1", "Namespace", f"tenant-{body['metadata']['name']}") is None:
            patch.status.update(await self._records.tenant(dict(body)))

    async def _environment(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        namespace = namespace_of(body["metadata"]["uid"])
        workload = await self._find("apps/v1", "StatefulSet", NAME, namespace)
        if workload is None:
            await self._records.engine(dict(body))
            workload = await self._find("apps/v1", "StatefulSet", NAME, namespace)
        if workload is None or not workload["status"].get("readyReplicas"):
            raise kopf.TemporaryError("the engine is starting", delay=AGAIN_S)
        found = await self._find("v1", "Namespace", namespace)
        assert found is not None
        patch.status.update(await self._records.ready(dict(body), found))

    async def _tenant_gone(self, name: str, **_: Any) -> None:
        await self._client.request("DELETE", path_of("v1", "Namespace", "", f"tenant-{name}"))

    async def _environment_gone(self, uid: str, **_: Any) -> None:
        await self._client.request("DELETE", path_of("v1", "Namespace", "", namespace_of(uid)))

    async def _find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._client.request("GET", path_of(api_version, kind, namespace, name))
        except NotFound:
            return None


if __name__ == "__main__":
    Handlers(sys.argv[1]).register()
    kopf.run(clusterwide=True)
