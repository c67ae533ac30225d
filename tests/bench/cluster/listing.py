"""The reference of P6: a process that lists every kind that the operator follows, in pages, and keeps nothing.

`python -m tests.bench.cluster.listing`, with KUBECONFIG; prints how many objects there are of the platform's own kinds.
"""

from __future__ import annotations

import asyncio

from tenantry.adapters.kubernetes.client.credentials import find_credentials
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.client.wire import endpoint
from tenantry.adapters.kubernetes.engines.observed import FOLLOWED as OF_ENGINES
from tenantry.adapters.kubernetes.engines.observed import SELECTOR
from tenantry.kinds.registry import FOLLOWED

PAGE = 500


async def listed(client: Client, path: str, selector: str) -> int:
    """The number of objects."""
    query = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
    count = 0
    while True:
        answer = await client.request("GET", path, query=query)
        count += len(answer["items"])
        if not answer["metadata"].get("continue"):
            return count
        query["continue"] = answer["metadata"]["continue"]


async def main() -> None:
    client = Client(find_credentials())
    own = [await listed(client, endpoint(kind).path(), endpoint(kind).selector) for kind in FOLLOWED]
    for kind in OF_ENGINES:
        await listed(client, path_of(*kind), SELECTOR)
    await client.close()
    print(sum(own))


if __name__ == "__main__":
    asyncio.run(main())
