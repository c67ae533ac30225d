"""`tenantry engine`: one engine alone, without a platform; and its backups."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import EncryptTo, Identity, Log, TrustKeys, Unprotected, trust_of
from tenantry.cli.output.documents import LogFormat, write
from tenantry.cli.output.failing import BAD_INPUT, Failure, say
from tenantry.cli.processes.engine_start import LISTEN, run_engine

Data = Annotated[
    Path,
    typer.Option("--data", help="The folder that holds everything of the engine.", callback=path_options.a_folder_or_none_yet),
]
Database = Annotated[str | None, typer.Option("--database", help="URL of a database. Default: SQLite in the folder.")]
Scratch = Annotated[
    Path | None,
    typer.Option(
        "--scratch",
        help="With -: the folder of a temporary copy. Default: the system's temporary folder.",
        callback=path_options.a_folder_or_none_yet,
    ),
]
AGAIN_S = 0.5
TELLS_WITHIN_S = 2.0
POD_SCRATCH = 3 << 29
"""Bytes of one database that a pod has room for a copy of. Its /tmp holds a little more, and who fills that up is evicted."""


def register(app: typer.Typer) -> None:
    """Adds the command, which is a group, too."""
    group = typer.Typer(
        name="engine", invoke_without_command=True, epilog=examples("tenantry engine --data data/ --listen 127.0.0.1:8081")
    )
    group.callback()(engine)
    shown = examples(
        "tenantry engine backup --data data/ -o engine.tar",
        "tenantry engine backup --data data/ -o engine.tar.age --encrypt-to age1...",
    )
    group.command("backup", epilog=shown)(backup)
    group.command("restore", epilog=examples("tenantry engine restore engine.tar --data data/"))(restore)
    shown = examples("tenantry engine release --data data/", "tenantry engine release --database postgresql://db.example.com/crm")
    group.command("release", epilog=shown)(release)
    group.command("await", hidden=True)(await_restore)
    app.add_typer(group)


def engine(
    context: typer.Context,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="The folder that holds everything of the engine.", callback=path_options.a_folder_or_none_yet
        ),
    ] = None,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.")] = LISTEN,
    database: Database = None,
    log_format: Log = LogFormat.TEXT,
) -> None:
    """Serves one engine until SIGINT or SIGTERM. The password of `admin` lies in `<data>/admin-password`.

    In the pod of an environment the platform's settings (TENANTRY_MANAGED__...) say who manages it.
    """
    if context.invoked_subcommand is not None:
        if data is not None or database is not None:
            raise Failure(f"write --data and --database after `{context.invoked_subcommand}`", BAD_INPUT)
        return
    if data is None:
        raise Failure("--data is missing: the folder that holds everything of the engine", BAD_INPUT)
    run_engine(data, listen, database, log_format)


def backup(
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The file to write; - is standard output.", callback=path_options.a_pipe_or_file_to_write
        ),
    ],
    database: Database = None,
    scratch: Scratch = None,
    encrypt_to: EncryptTo = None,
) -> None:
    """Backs one engine up to a file, while it serves. It is signed, and says by which key."""
    from tenantry.adapters.age import read_recipients
    from tenantry.adapters.local.archives import Packing
    from tenantry.adapters.local.engine_backups import back_up, database_size, key_of, stream_back_up
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.commands.transfer.backups import signed_by, size_text
    from tenantry.cli.processes.engine_process import database_of

    settings = load()
    managed = settings.managed
    read_recipients(encrypt_to or ())
    packing = Packing(key_of(data, settings.backups.key_file), encrypt_to or (), settings.backups.keys)
    url = database or database_of(managed)
    if str(out) == path_options.PIPE:
        if managed.uid and database_size(data) > POD_SCRATCH:
            size = size_text(database_size(data))
            raise Failure(f"the engine's database holds {size}, and its pod has room for a copy of {size_text(POD_SCRATCH)}")
        stream_back_up(data, url, sys.stdout.buffer, scratch or Path(tempfile.gettempdir()), packing)
        return say(signed_by(packing.key.public()))
    back_up(data, url, out.absolute(), packing)
    write(f"{out}  {size_text(out.stat().st_size)}")
    return write(signed_by(packing.key.public()))


def restore(
    archive: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A backup of an engine; - is standard input.", callback=path_options.a_file_or_pipe),
    ],
    data: Data,
    database: Database = None,
    scratch: Scratch = None,
    trust: TrustKeys = None,
    identity: Identity = None,
    unprotected: Unprotected = False,
) -> None:
    """Puts a backup into an empty folder, and an empty database; run again when it was interrupted."""
    from tenantry.adapters.local.engine_backups import key_of, receive
    from tenantry.adapters.local.engine_backups import restore as restore_engine
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.processes.engine_process import database_of

    settings = load()
    url = database or database_of(settings.managed)
    trusted = trust_of(trust, unprotected, str(archive)).with_key(key_of(data, settings.backups.key_file).public())
    if str(archive) == path_options.PIPE:
        receive(sys.stdin.buffer, data, url, scratch or Path(tempfile.gettempdir()), trusted, identity)
    else:
        restore_engine(archive, data, url, trusted, identity)
    write(f"{data}  restored")


def release(
    data: Annotated[Path | None, typer.Option("--data", help="The engine's folder.", callback=path_options.a_folder)] = None,
    database: Annotated[
        str | None, typer.Option("--database", help="URL of the database; SQLite in the folder if absent.")
    ] = None,
) -> None:
    """Lets the next engine that starts take a database over. Stop the engine that uses it first.

    An engine refuses a database that belongs to another one, or that is used when its own folder is new.
    """
    from tenantry.adapters.store.state_folder import FolderLock
    from tenantry.engine.opening.ownership import release as release_database

    lock = FolderLock(data) if data is not None else None
    try:
        release_database(data, database)
    finally:
        if lock is not None:
            lock.release()
    write(f"{data if database is None else 'the database'}  released: the next engine that starts takes it over")


def await_restore(data: Data) -> None:
    """Waits until a backup was restored into the folder, without end; what a pod does whose environment is being restored."""
    import time

    from tenantry.adapters.local.engine_backups import is_restored

    while not is_restored(data):
        time.sleep(AGAIN_S)
    # The process that restored it still reports its success in this container, and ends with it.
    time.sleep(TELLS_WITHIN_S)
