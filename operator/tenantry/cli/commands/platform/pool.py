"""`tenantry pool`: the engines of many environments in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Log
from tenantry.cli.output.documents import LogFormat

LISTEN = "127.0.0.1:8081"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("pool", epilog=examples("tenantry pool --data data/ --listen 0.0.0.0:8080"))(pool)


def pool(
    data: Annotated[Path, typer.Option("--data", help="The folder that holds the engines.")],
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = LISTEN,
    log_format: Log = LogFormat.TEXT,
) -> None:
    """Serves the engines of a pool until SIGTERM. The operator of a cluster runs it, and says which engines it holds.

    The settings TENANTRY_MANAGED__... name the pool and the platform's public keys.
    """
    import asyncio

    from tenantry.cli.processes.lean_imports import import_without_consoles

    import_without_consoles()
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.output.logs import end_logged
    from tenantry.cli.processes.pools.pool_process import serve_pool
    from tenantry.cli.processes.serving import loop_factory

    with end_logged(log_format), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve_pool(data, listen, load(), log_format))
