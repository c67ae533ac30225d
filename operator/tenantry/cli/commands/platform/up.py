"""`tenantry up`: a platform on this machine, from a folder of YAML or a Git repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.arguments.confirming import Yes, asks, confirm_planned
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Log
from tenantry.cli.arguments.sources import DEFAULT_SOURCE, SOURCE_HELP, SourceName
from tenantry.cli.output.documents import LogFormat


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "up",
        epilog=examples(
            "tenantry up examples/01-one-environment",
            "tenantry up git+https://git.example.com/platform.git@main:environments --listen 0.0.0.0:8080",
            "tenantry up platform --metrics-listen 127.0.0.1:8082",
        ),
    )(up)


def up(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    listen: Annotated[
        str | None, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.", show_default="127.0.0.1:8080")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics-listen", help="HOST:PORT for GET /metrics, which users must not reach.", show_default="nowhere"),
    ] = None,
    state: Annotated[Path | None, typer.Option("--state", help="The state folder.", show_default=".tenantry")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Converges, prints the table and ends: 0 all Ready, 1 not, 2 bad input.")
    ] = False,
    public_url: Annotated[
        str | None, typer.Option("--public-url", help="The URL for others, if it is not the listening address.")
    ] = None,
    source_name: SourceName = DEFAULT_SOURCE,
    yes: Yes = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings, errors and the URL.")] = False,
    log_format: Log = LogFormat.TEXT,
) -> None:
    """Runs the platform that SOURCE declares, and follows its edits, until SIGINT or SIGTERM."""
    from tenantry.cli.processes.lean_imports import import_without_consoles

    import_without_consoles("structlog", "httpx")
    from tenantry.adapters.store.sqlite import DATABASE_FILE
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.arguments.sources import located
    from tenantry.cli.clients.connect import with_console
    from tenantry.cli.processes.running import Run, run

    given = {"listen": listen, "metrics": metrics, "state": state, "public_url": public_url}
    settings = load(**{key: value for key, value in given.items() if value is not None})
    where = located(source)
    if asks(yes) and (settings.state / DATABASE_FILE).exists():
        with_console(settings.state, lambda console: confirm_planned(console, where, source_name))
    raise typer.Exit(run(Run(where, source_name, settings, once, quiet, log_format)))
