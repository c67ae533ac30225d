"""The pod of an engine, found for requests that wait for it."""

from __future__ import annotations

import asyncio

import httpx

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.engines.state import is_ready
from tenantry.adapters.kubernetes.engines.workload import POD, PORT, labels_of, namespace_of, service_url
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import NotFound

AT_ONCE = 20
"""Engines that are looked for at the same time."""
PROBE_S = 2.0


class OwnPods:
    """The engines' pods. A request goes to the pod itself: the Service may lead back to the api.

    services: True for a process outside of the cluster, whose transport reaches Services only.
    """

    def __init__(self, client: Client, transport: httpx.AsyncBaseTransport, *, services: bool = False) -> None:
        self._client = client
        self._transport = transport
        self._services = services
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def address(self, ref: EngineRef) -> str:
        """The URL of the pod of that very engine, `""` while it does not answer. Raises Halt."""
        async with self._turns:
            try:
                pod = await self._client.request("GET", path_of("v1", "Pod", namespace_of(ref.id), POD))
            except NotFound:
                return ""
            url = self._url(ref, pod)
            return url if url and (is_ready(pod) or await self._answers(url)) else ""

    def _url(self, ref: EngineRef, pod: Document) -> str:
        if not is_pod_of(ref, pod):
            return ""
        if self._services:
            return service_url(ref.id) if is_ready(pod) else ""
        address = (pod.get("status") or {}).get("podIP", "")
        return f"http://[{address}]:{PORT}" if ":" in address else f"http://{address}:{PORT}" if address else ""

    async def _answers(self, url: str) -> bool:
        """Return True if the engine is ready: the kubelet sees it up to some seconds later."""
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), PROBE_S)
        request = httpx.Request("GET", f"{url}/readyz", extensions={"timeout": timeout})
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError:
            return False
        await response.aclose()
        return response.status_code == 200


def is_pod_of(ref: EngineRef, pod: Document) -> bool:
    """Return True if the pod is that engine's, and is not going."""
    metadata = pod["metadata"]
    return labels_of(ref).items() <= (metadata.get("labels") or {}).items() and "deletionTimestamp" not in metadata
