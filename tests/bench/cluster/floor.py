"""The floor: the writes that must happen for Tenants and their Environments, and nothing else.

Each object once, one finalizer, one Operation and one status for each that is declared; nothing is read, watched or waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from tenantry.adapters.kubernetes.client.http import JSON_PATCH, MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.wire import object_path
from tenantry.adapters.kubernetes.store import WRITE, KubernetesStore
from tenantry.model.resource import FINALIZER, ref_of
from tests.bench.cluster.children.documents import children, people
from tests.bench.cluster.declaring import environment, tenant
from tests.bench.cluster.place import CLIENTS, Object, started
from tests.bench.cluster.records import Records


class Floor:
    """declaring: as whom people's objects are made; working: as whom the platform's are; with_children: of each Environment."""

    def __init__(self, declaring: Client, working: Client, api_url: str, *, with_children: bool = False) -> None:
        self._declaring = declaring
        self._working = working
        self._records = Records(working, api_url)
        self._with_children = with_children

    async def run(self, tenants: int, environments: int) -> float:
        """Seconds for so many Tenants with so many Environments in all; over CLIENTS connections."""
        await self._records.open()
        start = time.perf_counter()
        numbers = iter(range(tenants))
        async with asyncio.TaskGroup() as working:
            for _ in range(CLIENTS):
                working.create_task(self._work(numbers, tenants, environments))
        return time.perf_counter() - start

    async def _work(self, numbers: Iterator[int], tenants: int, environments: int) -> None:
        for number in numbers:
            await self._tenant(number)
            for other in range(len(range(number, environments, tenants))):
                await self._environment(number, f"dev{other}" if other else "dev")

    async def _tenant(self, number: int) -> None:
        declared = await self._declare(tenant(number))
        await self._status(declared, await self._records.tenant(declared))
        if self._with_children:
            await KubernetesStore(self._declaring).create(people(f"tenant-{declared['metadata']['name']}"))

    async def _environment(self, number: int, name: str) -> None:
        declared = await self._declare(environment(number, name))
        namespace, workload = await self._records.engine(declared)
        await started(self._declaring, workload)
        await self._status(declared, await self._records.ready(declared, namespace))
        for child in children(declared, self._records.secrets) if self._with_children else ():
            made = await self._declare(child.declared)
            await self._status(made, await self._records.child(made, child))

    async def _declare(self, document: Object) -> Object:
        """Made by people, held by the platform."""
        declared = dict(await KubernetesStore(self._declaring).create(document))
        body = {"metadata": {"finalizers": [FINALIZER]}}
        await self._working.request("PATCH", object_path(ref_of(declared)), body=body, content_type=MERGE_PATCH)
        return declared

    async def _status(self, declared: Object, status: Object) -> None:
        patch = [{"op": "add", "path": "/status", "value": status}]
        path = object_path(ref_of(declared), "status")
        await self._working.request("PATCH", path, query=WRITE, body=patch, content_type=JSON_PATCH)
