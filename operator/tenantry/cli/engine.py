"""`tenantry engine`: one engine alone, without a platform; and its backups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.output import write

Data = Annotated[Path, typer.Option("--data", help="The folder that holds everything of the engine.")]
Database = Annotated[str | None, typer.Option("--database", help="URL of a database; SQLite in the folder where absent.")]


def register(app: typer.Typer) -> None:
    """Adds the command, which is a group, too."""
    group = typer.Typer(name="engine", invoke_without_command=True)
    group.callback()(engine)
    group.command("backup")(backup)
    group.command("restore")(restore)
    app.add_typer(group)


def engine(
    context: typer.Context,
    data: Annotated[Path | None, typer.Option("--data", help="The folder that holds everything of the engine.")] = None,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = "127.0.0.1:8081",
    database: Database = None,
) -> None:
    """Serves one engine until SIGINT or SIGTERM. The password of `admin` lies in `<data>/admin-password`.

    In the pod of an environment the platform's settings (TENANTRY_MANAGED__...) say who manages it.
    """
    if context.invoked_subcommand is not None:
        if data is not None or database is not None:
            raise Failure(f"--data and --database stand behind `{context.invoked_subcommand}`", BAD_INPUT)
        return
    if data is None:
        raise Failure("--data is missing: the folder that holds everything of the engine", BAD_INPUT)
    import asyncio

    from tenantry.cli.alone import serve_engine
    from tenantry.cli.configuration import load

    asyncio.run(serve_engine(data, listen, database, load()))


def backup(
    data: Data,
    out: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    database: Database = None,
) -> None:
    """Backs one engine up to a file, while it serves."""
    from tenantry.adapters.local.engine_backups import back_up
    from tenantry.cli.alone import database_of
    from tenantry.cli.backups import size_text
    from tenantry.cli.configuration import load

    if not out.absolute().parent.is_dir() or out.is_dir():
        raise Failure(f"{out}: no file can be written there", BAD_INPUT)
    back_up(data, database or database_of(load().managed), out.absolute())
    write(f"{out}  {size_text(out.stat().st_size)}")


def restore(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="A backup of an engine.")],
    data: Data,
    database: Database = None,
) -> None:
    """Puts a backup into an empty folder, and an empty database; run again when it was interrupted."""
    from tenantry.adapters.local.engine_backups import restore as restore_engine
    from tenantry.cli.alone import database_of
    from tenantry.cli.configuration import load

    restore_engine(archive, data, database or database_of(load().managed))
    write(f"{data}  restored")
