"""P4 and P5: from the edit of an Environment until it is observed and Ready, at rest and while many others are declared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.wire import object_path
from tenantry.adapters.kubernetes.feed import KubernetesFeed
from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.hosts.standalone import listed
from tenantry.model.resource import Ref, is_ready
from tests.bench.cluster.declaring import REGION, Declaring
from tests.bench.cluster.place import CLIENTS, client_of, object_, place, quiet
from tests.bench.row import Row, Scale, Times, Took, row, told

TENANTS = 1000
EDITS = 200
PAUSE_S = 0.2
"""Between two edits under load: they are to be spread over all of it."""
LOOKS_S = 0.02
WITHIN_S = 60.0
P4_GATE = 6.0
P5_LIMIT_S = 5.0


def measure(scale: Scale) -> Sequence[Row]:
    """P4, then P5 on the same platform."""
    count = scale.of(TENANTS)
    with place(scale.folder / "editing") as at, at.platform.operator(TENANTRY_WORKERS=str(CLIENTS)) as operator:

        async def measured() -> tuple[list[Took], list[Took], list[Took], float]:
            async with client_of(at.admin) as client:
                await KubernetesStore(client).create(object_("Region", REGION))
                before = Declaring(client, 1, first=count)
                await before.run()
                await quiet(operator.process.pid)
                async with asyncio.TaskGroup() as watching:
                    edits = Edits(client, Ref("Environment", f"tenant-t{count}", "dev"))
                    task = watching.create_task(edits.watch(await edits.version()))
                    at_rest = [await edits.edit() for _ in range(scale.of(EDITS))]
                    declaring = asyncio.create_task(Declaring(client, count, known=before.ready).run())
                    busy = []
                    while not declaring.done():
                        busy.append(await edits.edit())
                        await asyncio.sleep(PAUSE_S)
                    task.cancel()
                return [each[0] for each in at_rest], [each[1] for each in at_rest], [each[0] for each in busy], await declaring

        ours, patches, busy, seconds = asyncio.run(measured())
    work = "edit of an Environment until it is observed and Ready, median"
    return (
        row("P4", work, "the PATCH alone", Times(ours, patches), "lower", P4_GATE, edits=str(len(ours))),
        _under_load(busy, count, seconds),
    )


def _under_load(busy: Sequence[Took], count: int, seconds: float) -> Row:
    taken = sorted(each.wall for each in busy)
    p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
    work = f"the p99 of such edits while {count:,} Tenants and {count:,} Environments are declared"
    beside = {"p50": told(median(taken)), "edits": str(len(taken)), "all Ready": told(seconds)}
    spread = (taken[0] / P5_LIMIT_S, taken[-1] / P5_LIMIT_S)
    return Row("P5", work, told(P5_LIMIT_S), p99 / P5_LIMIT_S, spread, "lower", 1.0, (told(p99), told(P5_LIMIT_S)), beside)


async def until_observed(client: Client, ref: Ref, name: str) -> float:
    """Seconds from an edit of an Environment's displayed name until it is Ready at that generation."""
    start = time.perf_counter()
    body = {"spec": {"displayName": name}}
    edited = await client.request("PATCH", object_path(ref), body=body, content_type=MERGE_PATCH)
    while not is_ready(edited):
        await asyncio.sleep(LOOKS_S)
        edited = await client.request("GET", object_path(ref))
    return time.perf_counter() - start


class Edits:
    """Edits one object again and again, and sees in a watch when it is Ready at the generation of the edit."""

    def __init__(self, client: Client, ref: Ref) -> None:
        self._client = client
        self._path = object_path(ref)
        self._ref = ref
        self._number = self._seen = 0
        self._changed = asyncio.Condition()

    async def version(self) -> str:
        """Return the version from which to watch."""
        return (await listed(KubernetesFeed(self._client), self._ref.kind))[1]

    async def watch(self, version: str) -> None:
        """Follow the object until it is cancelled."""
        async for event in KubernetesFeed(self._client).watch(self._ref.kind, version):
            metadata = event.document["metadata"]
            if (metadata["namespace"], metadata["name"]) != (self._ref.namespace, self._ref.name) or not is_ready(event.document):
                continue
            async with self._changed:
                self._seen = event.document["status"]["observedGeneration"]
                self._changed.notify_all()

    async def edit(self) -> tuple[Took, Took]:
        """Change the displayed name. The time until it is Ready, and of the PATCH alone."""
        self._number += 1
        body = {"spec": {"displayName": f"Edited {self._number}"}}
        start = time.perf_counter()
        edited = await self._client.request("PATCH", self._path, body=body, content_type=MERGE_PATCH)
        patched = time.perf_counter() - start
        generation = edited["metadata"]["generation"]
        async with asyncio.timeout(WITHIN_S), self._changed:
            await self._changed.wait_for(lambda: self._seen >= generation)
        return Took(time.perf_counter() - start), Took(patched)
