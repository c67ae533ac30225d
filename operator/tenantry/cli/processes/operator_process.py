"""The operator of a cluster, from its start to its end. It imports no server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tenantry.adapters.kubernetes.lease import LeaseLost
from tenantry.bootstrap.cluster import run_operator
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.failing import NOT_DONE, say
from tenantry.cli.output.logs import configure, include_libraries
from tenantry.cli.processes.freed_memory import freed_memory_returned
from tenantry.cli.processes.serving import tune_collector
from tenantry.cli.processes.signals import signalled
from tenantry.cli.processes.tracing import traced
from tenantry.settings import Settings


async def operate(settings: Settings, log_format: LogFormat = LogFormat.TEXT) -> int:
    """Run the operator until a signal. Returns 1 when the lease was lost, to be started anew. Raises Halt."""
    configure(say, log_format)
    include_libraries(say, log_format)
    tune_collector()
    with freed_memory_returned(), traced("tenantry-operator"):
        return await _operate(settings)


async def _operate(settings: Settings) -> int:
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
