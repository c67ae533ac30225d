"""The operator of a cluster, from its start to its end. It needs nothing of what serves."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tenantry.adapters.kubernetes.lease import LeaseLost
from tenantry.bootstrap.cluster import run_operator
from tenantry.cli.failing import NOT_DONE, say
from tenantry.cli.logs import configure, include_libraries
from tenantry.cli.serving import tune_collector
from tenantry.cli.signals import signalled
from tenantry.settings import Settings


async def operate(settings: Settings) -> int:
    """The operator until a signal. Returns 1 when the lease was lost, to be started anew. Raises Halt."""
    configure(say)
    include_libraries(say)
    tune_collector()
    operating = asyncio.create_task(run_operator(settings))
    stopping = asyncio.create_task(signalled())
    await asyncio.wait((operating, stopping), return_when=asyncio.FIRST_COMPLETED)
    for task in (operating, stopping):
        task.cancel()
    try:
        with suppress(asyncio.CancelledError):
            await operating
    except LeaseLost as lost:
        say(f"another may act now: {lost}")
        return NOT_DONE
    return 0
