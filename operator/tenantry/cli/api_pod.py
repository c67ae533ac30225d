"""The api of a cluster, from its start to its end."""

from __future__ import annotations

from tenantry.bootstrap.cluster_api import open_api
from tenantry.cli.failing import BAD_INPUT, Failure, say
from tenantry.cli.logs import configure
from tenantry.cli.output import write
from tenantry.cli.serving import serving, tune_collector
from tenantry.cli.signals import signalled
from tenantry.cli.sockets import listening, url_of
from tenantry.settings import Settings, parse_address


async def serve_api(settings: Settings, listen: str) -> int:
    """The facade until a signal. Returns the exit code. Raises Failure, Halt, OSError."""
    try:
        host, port = parse_address(listen)
    except ValueError as error:
        raise Failure(f"--listen: {error}", BAD_INPUT) from None
    configure(say)
    bound = listening(host, port)
    async with open_api(settings) as app, serving(app, bound, settings.http):
        tune_collector()
        write(f"Ready: {url_of(bound)}")
        await signalled()
    return 0
