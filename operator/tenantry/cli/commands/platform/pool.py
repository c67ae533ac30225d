"""`tenantry pool`: the engines of many environments in one process; and their backups, for commands in its pod."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Log, TrustKeys, Unprotected, trust_of
from tenantry.cli.output.documents import LogFormat, to_json, write
from tenantry.cli.output.failing import BAD_INPUT, Failure

if TYPE_CHECKING:
    from tenantry.adapters.pools.archives import ArchivePlace

LISTEN = "127.0.0.1:8081"
Data = Annotated[
    Path, typer.Option("--data", help="The folder that holds the engines.", callback=path_options.a_folder_or_none_yet)
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the environment.")]


def register(app: typer.Typer) -> None:
    """Adds the command, which is a group, too. The hidden ones are for `backup`, `backups` and `restore` with a cluster."""
    shown = examples("tenantry pool --data data/ --listen 0.0.0.0:8080")
    group = typer.Typer(name="pool", invoke_without_command=True, epilog=shown)
    group.callback()(pool)
    group.command("archives", hidden=True)(archives)
    group.command("backup", hidden=True)(backup)
    group.command("send", hidden=True)(send)
    group.command("receive", hidden=True)(receive)
    app.add_typer(group)


def pool(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option("--data", help="The folder that holds the engines.", callback=path_options.a_folder_or_none_yet)
    ] = None,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = LISTEN,
    log_format: Log = LogFormat.TEXT,
) -> None:
    """Serves the engines of a pool until SIGTERM. The operator of a cluster runs it, and says which engines it holds.

    The settings TENANTRY_MANAGED__... name the pool and the platform's public keys.
    """
    if context.invoked_subcommand is not None:
        return
    if data is None:
        raise Failure("--data is missing: the folder that holds the engines", BAD_INPUT)
    import asyncio

    from tenantry.cli.processes.lean_imports import import_without_consoles

    import_without_consoles()
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.output.logs import end_logged
    from tenantry.cli.processes.pools.pool_process import serve_pool
    from tenantry.cli.processes.serving import loop_factory

    with end_logged(log_format), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve_pool(data, listen, load(), log_format))


def archives(data: Data) -> None:
    """Lists the archives of removed environments as JSON, with the public key that signs them."""
    from tenantry.adapters.pools.archives import listing

    write(to_json(listing(_place(data))))


def send(id_: Id, data: Data) -> None:
    """Writes the newest archive of a removed environment to standard output."""
    from tenantry.adapters.pools.archives import send

    send(_place(data), id_, sys.stdout.buffer)


def backup(id_: Id, data: Data) -> None:
    """Writes a backup of an engine to standard output, while it serves."""
    from tenantry.adapters.local.archives import Packing
    from tenantry.adapters.local.engine_backups import stream_back_up
    from tenantry.cli.arguments.configuration import load

    place = _place(data)
    folder, url = place.engine(id_)
    packing = Packing(place.key, keys=load().backups.keys)
    stream_back_up(folder, url, sys.stdout.buffer, Path(tempfile.gettempdir()), packing)


def receive(
    id_: Id,
    data: Data,
    scratch: Annotated[
        Path | None, typer.Option("--scratch", help="The folder of a temporary copy.", callback=path_options.a_folder_or_none_yet)
    ] = None,
    trust: TrustKeys = None,
    unprotected: Unprotected = False,
) -> None:
    """Unpacks a backup from standard input for an engine that waits for it."""
    from tenantry.adapters.pools.archives import receive

    trusted = trust_of(trust, unprotected, "the backup")
    receive(_place(data), sys.stdin.buffer, id_, scratch or Path(tempfile.gettempdir()), trusted)


def _place(data: Path) -> ArchivePlace:
    """Return the place of the archives of the pool in whose pod this process runs."""
    from tenantry.adapters.database_url import mounted
    from tenantry.adapters.pools.archives import VolumePlace
    from tenantry.cli.arguments.configuration import load

    settings = load()
    url = mounted(settings.managed.database_url)
    if url is None:
        return VolumePlace(data, settings.backups.keep)
    from tenantry.adapters.pools.shared.backups import SharedPlace

    return SharedPlace(url, settings.managed.pool, data, settings.backups.keep)
