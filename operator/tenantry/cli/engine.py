"""`tenantry engine`: one engine alone, without a platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("engine")(engine)


def engine(
    data: Annotated[Path, typer.Option("--data", help="The folder that holds everything of the engine.")],
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = "127.0.0.1:8081",
    database: Annotated[
        str | None, typer.Option("--database", help="URL of a database; SQLite in the folder where absent.")
    ] = None,
) -> None:
    """Serves one engine until SIGINT or SIGTERM. The password of `admin` lies in `<data>/admin-password`.

    In the pod of an environment the platform's settings (TENANTRY_MANAGED__...) say who manages it.
    """
    import asyncio

    from tenantry.cli.alone import serve_engine
    from tenantry.cli.configuration import load

    asyncio.run(serve_engine(data, listen, database, load()))
