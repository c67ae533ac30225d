"""`tenantry up`: a platform on this machine, from a folder of YAML or a Git repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.source import SOURCE_HELP


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("up")(up)


def up(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    listen: Annotated[
        str | None, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.", show_default="127.0.0.1:8080")
    ] = None,
    state: Annotated[Path | None, typer.Option("--state", help="The state folder.", show_default=".tenantry")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Converges, prints the table and ends: 0 all Ready, 1 not, 2 bad input.")
    ] = False,
    public_url: Annotated[
        str | None, typer.Option("--public-url", help="How others reach it, where it is not the listening address.")
    ] = None,
    source_name: Annotated[str, typer.Option("--source-name", help="Which objects are the source's own.")] = "default",
) -> None:
    """Runs the platform that SOURCE declares, and follows its edits, until SIGINT or SIGTERM."""
    from tenantry.cli.configuration import load
    from tenantry.cli.running import Run, run
    from tenantry.cli.source import located

    given = {"listen": listen, "state": state, "public_url": public_url}
    settings = load(**{key: value for key, value in given.items() if value is not None})
    raise typer.Exit(run(Run(located(source), source_name, settings, once)))
