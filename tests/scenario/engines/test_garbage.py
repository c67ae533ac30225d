"""Requests leave nothing to the garbage collector: it stops the whole process, also for other tenants, while it collects."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.bench.fair_clients import answered, http
from tests.bench.fair_server import served
from tests.bench.fairness import Request, Tenant, attacks, furnished

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROWS = 10
TIMES = 5
"""Requests of a test: an object that each of them leaves is there as often."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    async with served(tmp_path_factory.mktemp("platform")) as place:
        yield await asyncio.to_thread(furnished, place, "attacker", ROWS)


async def requested(tenant: Tenant, request: Request, times: int) -> None:
    connection = await asyncio.open_connection("127.0.0.1", tenant.port)
    try:
        for _ in range(times):
            assert await answered(connection, http(request)) < 500
    finally:
        connection[1].close()
        await connection[1].wait_closed()


def cyclic() -> Counter[str]:
    """Counts of our objects that only the garbage collector can free, by type."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return Counter(
            name for each in gc.garbage if (name := f"{type(each).__module__}.{type(each).__name__}").startswith("tenantry.")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "reads",
        "writes",
        "LIKE",
        "checks",
        "plans",
        "sign-ins",
        "Basic",
        "json",
        "large bodies",
        "uploads",
        "dry runs",
        "manifests",
    ],
)
async def test_a_request_leaves_no_object_of_ours_to_the_collector(tenant: Tenant, name: str) -> None:
    request = attacks(tenant)[name].requests[0]
    await requested(tenant, request, 2)  # what is made once and kept is not a request's
    gc.collect()
    gc.disable()
    gc.freeze()  # what is there now is not looked at: it is large, and what an earlier test made may end meanwhile
    try:
        await requested(tenant, request, TIMES)
        assert {name: count for name, count in cyclic().items() if count >= TIMES} == {}
    finally:
        gc.enable()
