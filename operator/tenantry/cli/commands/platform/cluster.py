"""`tenantry operator` and `tenantry api`: the platform's two processes on Kubernetes."""

from __future__ import annotations

from typing import Annotated

import typer

from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Log
from tenantry.cli.output.documents import LogFormat


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("operator", epilog=examples("tenantry operator --log-format json"))(operator)
    app.command("api", epilog=examples("tenantry api --listen 0.0.0.0:8080"))(api)


def operator(log_format: Log = LogFormat.TEXT) -> None:
    """Runs the operator of a cluster until SIGTERM. Of several, one holds the lease and acts; the others stand by."""
    import asyncio

    from tenantry.cli.processes.lean_imports import KUBERNETES_CLIENTS, hidden, import_without_consoles

    import_without_consoles()
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.output.logs import end_logged

    with hidden(*KUBERNETES_CLIENTS):
        from tenantry.cli.processes.operator_process import operate
    from tenantry.cli.processes.serving import loop_factory

    with end_logged(log_format), asyncio.Runner(loop_factory=loop_factory()) as runner:
        code = runner.run(operate(load(), log_format))
    raise typer.Exit(code)


def api(
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = "0.0.0.0:8080",
    log_format: Log = LogFormat.TEXT,
) -> None:
    """Serves the REST facade of a cluster until SIGTERM."""
    import asyncio

    from tenantry.cli.processes.lean_imports import KUBERNETES_CLIENTS, hidden, import_without_consoles

    import_without_consoles()
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.output.logs import end_logged

    with hidden(*KUBERNETES_CLIENTS):
        from tenantry.cli.processes.api_process import serve_api
    from tenantry.cli.processes.serving import loop_factory

    with end_logged(log_format), asyncio.Runner(loop_factory=loop_factory()) as runner:
        code = runner.run(serve_api(load(), listen, log_format))
    raise typer.Exit(code)
