"""The references of P2: an operator of stock kopf handlers, with default settings, that makes the same objects as the platform.

`python -m tests.bench.cluster.stock official|ours API_URL`, with KUBECONFIG. official: by the official client, as kopf's own
documentation teaches (docs.kopf.dev/en/stable/walkthrough/creation); ours: by the client that Tenantry wrote for itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, cast

import kopf
import kubernetes

from tenantry.adapters.kubernetes.client.credentials import find_credentials
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of, reference
from tenantry.adapters.kubernetes.engines.workload import NAME, namespace_of
from tenantry.model.resource import API_VERSION
from tenantry.model.verdicts import AlreadyExists, NotFound
from tests.bench.cluster.place import Object
from tests.bench.cluster.records import Records

AGAIN_S = 0.5


class Ours(Records):
    """Records, and what is read and deleted, by our client.

    kopf calls a handler again that failed: it then finds what it made before, or it would fail without end.
    """

    async def create(self, document: Object) -> Object:
        try:
            return await super().create(document)
        except AlreadyExists:
            return await self._client.request("GET", reference(document))

    async def namespace(self, name: str) -> Object | None:
        return await self._find("v1", "Namespace", name)

    async def workload(self, namespace: str) -> Object | None:
        return await self._find("apps/v1", "StatefulSet", NAME, namespace)

    async def delete(self, namespace: str) -> None:
        await self._client.request("DELETE", path_of("v1", "Namespace", "", namespace))

    async def _find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._client.request("GET", path_of(api_version, kind, namespace, name))
        except NotFound:
            return None


class Official(Ours):
    """The same by the official client. It blocks: in threads, of which asyncio has as many as kopf has for its handlers."""

    def __init__(self, client: Client, api_url: str) -> None:
        super().__init__(client, api_url)
        kubernetes.config.load_kube_config()  # type: ignore[no-untyped-call]
        self._api = kubernetes.client.ApiClient()

    async def create(self, document: Object) -> Object:
        try:
            return await asyncio.to_thread(self._create, document)
        except (kubernetes.client.ApiException, kubernetes.utils.FailToCreateError) as error:
            refusals: Sequence[Any] = getattr(error, "api_exceptions", (error,))
            if any(each.status != HTTPStatus.CONFLICT for each in refusals):
                raise
            return await self._client.request("GET", reference(document))

    def _create(self, document: Object) -> Object:
        if document["apiVersion"] == API_VERSION:
            group, version = API_VERSION.split("/")
            custom, namespace = kubernetes.client.CustomObjectsApi(self._api), document["metadata"]["namespace"]
            made = custom.create_namespaced_custom_object(group, version, namespace, "operations", document)
            return cast(Object, made)
        (created,) = kubernetes.utils.create_from_dict(self._api, document)  # type: ignore[no-untyped-call]
        return self._plain(created)

    async def namespace(self, name: str) -> Object | None:
        core = kubernetes.client.CoreV1Api(self._api)
        return await self._read(lambda: core.read_namespace(name))

    async def workload(self, namespace: str) -> Object | None:
        apps = kubernetes.client.AppsV1Api(self._api)
        return await self._read(lambda: apps.read_namespaced_stateful_set(NAME, namespace))

    async def delete(self, namespace: str) -> None:
        await asyncio.to_thread(kubernetes.client.CoreV1Api(self._api).delete_namespace, namespace)

    async def _read(self, read: Any) -> Object | None:
        try:
            return self._plain(await asyncio.to_thread(read))
        except kubernetes.client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def _plain(self, read: Any) -> Object:
        plain: Object = self._api.sanitize_for_serialization(read)  # type: ignore[no-untyped-call]
        return plain


class Handlers:
    """Of both kinds."""

    def __init__(self, records: Ours) -> None:
        self._records = records

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
        if await self._records.namespace(f"tenant-{body['metadata']['name']}") is None:
            patch.status.update(await self._records.tenant(dict(body)))

    async def _environment(self, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        namespace = namespace_of(body["metadata"]["uid"])
        workload = await self._records.workload(namespace)
        if workload is None:
            await self._records.engine(dict(body))
            workload = await self._records.workload(namespace)
        if workload is None or not workload["status"].get("readyReplicas"):
            raise kopf.TemporaryError("the engine is starting", delay=AGAIN_S)
        found = await self._records.namespace(namespace)
        assert found is not None
        patch.status.update(await self._records.ready(dict(body), found))

    async def _tenant_gone(self, name: str, **_: Any) -> None:
        await self._records.delete(f"tenant-{name}")

    async def _environment_gone(self, uid: str, **_: Any) -> None:
        await self._records.delete(namespace_of(uid))


if __name__ == "__main__":
    by = {"official": Official, "ours": Ours}[sys.argv[1]]
    Handlers(by(Client(find_credentials()), sys.argv[2])).register()
    kopf.run(clusterwide=True)
