"""`tenantry operator` and `tenantry api`: the platform's two processes on Kubernetes."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("operator")(operator)
    app.command("api")(api)


def operator() -> None:
    """Acts on a cluster while it holds the lease, until SIGTERM. Several may run: one leads, the others stand by."""
    import asyncio

    from tenantry.cli.configuration import load
    from tenantry.cli.pods import operate
    from tenantry.cli.serving import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        raise typer.Exit(runner.run(operate(load())))


def api(
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = "0.0.0.0:8080",
) -> None:
    """Serves the REST facade of a cluster until SIGTERM."""
    import asyncio

    from tenantry.cli.api_pod import serve_api
    from tenantry.cli.configuration import load
    from tenantry.cli.serving import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        raise typer.Exit(runner.run(serve_api(load(), listen)))
