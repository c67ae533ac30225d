"""`tenantry up`: a platform on this machine, from a folder of YAML or a Git repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Log, SourceName, Yes
from tenantry.cli.arguments.sources import DEFAULT_SOURCE, SOURCE_HELP
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.processes.up_start import UpCall, run_up


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
    state: Annotated[
        Path | None,
        typer.Option("--state", help="The state folder.", show_default=".tenantry", callback=path_options.a_folder_or_none_yet),
    ] = None,
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
    raise typer.Exit(run_up(UpCall(source, listen, metrics, state, public_url, source_name, once, yes, quiet, log_format)))
