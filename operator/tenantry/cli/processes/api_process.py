"""The api of a cluster, from its start to its end."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tenantry.bootstrap.cluster_api import open_api
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.failing import say
from tenantry.cli.output.logs import announce, configure, include_libraries
from tenantry.cli.processes.freed_memory import freed_memory_returned
from tenantry.cli.processes.serving import address_of, serving, tune_collector
from tenantry.cli.processes.signals import signalled
from tenantry.cli.processes.tracing import traced
from tenantry.settings import Settings


async def serve_api(settings: Settings, listen: str, log_format: LogFormat = LogFormat.TEXT) -> int:
    """The facade until a signal. Returns the exit code. Raises Failure, Halt, OSError."""
    host, port = address_of(listen)
    configure(say, log_format)
    include_libraries(say, log_format)
    bound = listening(host, port)
    with freed_memory_returned(), traced("tenantry-api"):
        async with open_api(settings) as apps, AsyncExitStack() as stack:
            await stack.enter_async_context(serving(apps.facade, bound, settings.http))
            if settings.cluster.activator:
                at = listening(*address_of(settings.cluster.activator), "TENANTRY_CLUSTER__ACTIVATOR ")
                await stack.enter_async_context(serving(apps.activator, at, settings.http))
            tune_collector()
            announce(url_of(bound), log_format)
            await signalled()
    return 0
