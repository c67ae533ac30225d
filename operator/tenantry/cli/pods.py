"""The processes of a cluster, from their start to their end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tenantry.adapters.kubernetes.lease import LeaseLost
from tenantry.bootstrap.cluster import open_api, run_operator
from tenantry.cli.alone import signalled
from tenantry.cli.failing import BAD_INPUT, NOT_DONE, Failure, say
from tenantry.cli.logs import configure, include_libraries
from tenantry.cli.output import write
from tenantry.cli.serving import serving, tune_collector
from tenantry.cli.sockets import listening, url_of
from tenantry.settings import Settings, parse_address


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
    except BaseExceptionGroup as group:
        if group.split(LeaseLost)[1] is not None:
            raise
        say(f"another may act now: {group.exceptions[0]}")
        return NOT_DONE
    return 0


async def serve_api(settings: Settings, listen: str) -> int:
    """The facade until a signal. Returns the exit code. Raises Failure, Halt, OSError."""
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise Failure(f"--listen: {error}", BAD_INPUT) from None
    configure(say)
    bound = listening(host, port)
    async with open_api(settings) as app, serving(app, bound):
        tune_collector()
        write(f"Ready: {url_of(bound)}")
        await signalled()
    return 0
