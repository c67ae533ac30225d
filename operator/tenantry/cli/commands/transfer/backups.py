"""Backups of environments, and what to do without one: backup, backups, restore, accept-empty, accept-state."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import completing, path_options
from tenantry.cli.arguments.choosing import CLUSTER, STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import EncryptTo, Identity, Namespace, Output, State, TrustKeys, Unprotected, trust_of
from tenantry.cli.output.documents import OutputFormat, to_json, to_yaml, write
from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.cli.output.tables import TextTable, print_table

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.facts import BackupFacts, Trust

TITLES = ("ID", "ENVIRONMENT", "TAKEN", "SIZE", "KEPT UNTIL")
IMPORTANT = frozenset({"ID", "ENVIRONMENT"})
"""Titles that a narrow terminal shows too."""


Env = Annotated[
    str,
    typer.Argument(metavar="ENV", help="An environment, NAME or NAMESPACE/NAME.", autocompletion=completing.environments),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    shown = examples(
        "tenantry backup tenant-acme/dev -o dev.tar", "tenantry backup tenant-acme/dev -o dev.tar.age --encrypt-to age1..."
    )
    app.command("backup", epilog=shown)(backup)
    app.command("backups", epilog=examples("tenantry backups -o wide"))(backups)
    shown = examples(
        "tenantry restore dev.tar --as tenant-acme/copy", "tenantry restore dev.tar.age --identity key.txt --trust ed25519:..."
    )
    app.command("restore", epilog=shown)(restore)
    app.command("accept-empty", epilog=examples("tenantry accept-empty tenant-acme/dev"))(accept_empty)
    app.command("accept-state", epilog=examples("tenantry accept-state --state .tenantry"))(accept_state)


def backup(
    environment: Env,
    out: Annotated[Path, typer.Option("--output", "-o", help="The file to write.", callback=path_options.a_file_to_write)],
    namespace: Namespace = "",
    encrypt_to: EncryptTo = None,
    state: State = STATE,
) -> None:
    """Writes a signed backup of a running environment to a file, and prints the key that signed it."""
    from tenantry.adapters.age import read_recipients
    from tenantry.cli.clients.connect import with_console

    read_recipients(encrypt_to or ())

    with_console(state, lambda console: _backup(console, environment, namespace, out.absolute(), encrypt_to or ()))


async def _backup(console: Console, environment: str, namespace: str, out: Path, recipients: Sequence[str]) -> None:
    from tenantry.cli.arguments.finding import find_environment
    from tenantry.model.resource import ref_of

    document = await find_environment(console, environment, namespace)
    facts = await console.backup(ref_of(document), str(out), recipients)
    write(f"{out}  {size_text(facts.size)}")
    write(signed_by(facts.signer))


def signed_by(key: str) -> str:
    """A line for whoever restores it on another machine."""
    return f"signed by {key}; elsewhere it is restored with --trust {key}"


def backups(output: Output = OutputFormat.TABLE, state: State = STATE) -> None:
    """Lists the archives of removed environments, the newest first."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _backups(console, output))


async def _backups(console: Console, output: OutputFormat) -> None:
    found = await console.backups()
    match output:
        case OutputFormat.JSON:
            write(to_json([asdict(each) for each in found]))
        case OutputFormat.YAML:
            write(to_yaml([asdict(each) for each in found]))
        case OutputFormat.NAME:
            for each in found:
                write(each.id)
        case OutputFormat.WIDE:
            print_table(TextTable((*TITLES, "PATH"), [(*_row(each), each.path) for each in found]))
        case OutputFormat.TABLE:
            print_table(TextTable(TITLES, [_row(each) for each in found], IMPORTANT))


def restore(
    archive: Annotated[str, typer.Argument(metavar="FILE|ID", help="A backup, or the id of a removed environment.")],
    as_: Annotated[
        str,
        typer.Option("--as", metavar="NAMESPACE/NAME", help="Its new name. Default: the former one."),
    ] = "",
    trust: TrustKeys = None,
    identity: Identity = None,
    unprotected: Unprotected = False,
    state: State = STATE,
) -> None:
    """Restores an environment with its id, its data and its declared objects."""
    from tenantry.adapters.local.reading import in_clear
    from tenantry.cli.clients.connect import with_console

    namespace, _, name = as_.partition("/")
    if as_ and (not (namespace and name) or "/" in name):
        raise Failure(f"--as: {as_!r} is not a name; write NAMESPACE/NAME", BAD_INPUT)
    if Path(archive).is_dir():
        raise Failure(f"{archive}: is a folder, not a file", BAD_INPUT)
    trusted = trust_of(trust, unprotected, archive)
    if not Path(archive).is_file():
        return with_console(state, lambda console: _restore(console, archive, namespace, name, trusted))
    # The platform may run in another folder than this command.
    with _scratch(state) as scratch, in_clear(Path(archive).absolute(), identity, scratch) as place:
        return with_console(state, lambda console: _restore(console, str(place), namespace, name, trusted))


@contextmanager
def _scratch(state: Path) -> Iterator[Path]:
    """A folder for an archive in clear: beside the engines, or for a cluster in the system's temporary folder."""
    from tenantry.adapters.local.members import scratch_folder

    local = state.is_dir() and CLUSTER.get() is None
    with scratch_folder(state.absolute() if local else Path(tempfile.gettempdir())) as folder:
        yield folder


async def _restore(console: Console, archive: str, namespace: str, name: str, trust: Trust) -> None:
    for applied in await console.restore(archive, namespace, name, trust):
        write(f"{applied.ref} {'restored' if applied.outcome == 'created' else applied.outcome}")


def accept_empty(
    environment: Env,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Replaces an engine whose data is missing by an empty one. The remains of the old one are kept."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _accept_empty(console, environment, namespace))


async def _accept_empty(console: Console, environment: str, namespace: str) -> None:
    from datetime import UTC, datetime

    from tenantry.cli.arguments.finding import find_environment
    from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, format_time, ref_of, why

    document = await find_environment(console, environment, namespace)
    _, reason, _ = why(document)
    if reason != "DataMissing":
        raise Failure(f"{ref_of(document)} misses no data: its condition Ready says {reason or 'nothing yet'}")
    asked = format_time(datetime.now(UTC))
    await console.patch(ref_of(document), {"metadata": {"annotations": {ACCEPT_EMPTY_REQUESTED: asked}}})
    write(f"{ref_of(document)} gets an empty engine")


def _row(facts: BackupFacts) -> tuple[str, ...]:
    return (facts.id, f"{facts.namespace}/{facts.name}", facts.taken, size_text(facts.size), facts.kept_until)


def size_text(size: int) -> str:
    """As one reads it: 812B, 24.1KiB, 3.0GiB."""
    number, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.0f}B" if unit == "B" else f"{number:.1f}{unit}"


def accept_state(state: State = STATE) -> None:
    """Lets a stopped platform start on an older copy of its state. Engines that the copy does not know stay as they are."""
    from tenantry.adapters.local.folders import disown
    from tenantry.adapters.store.state_folder import FolderLock

    if not (state / "engines").is_dir():
        raise Failure(f"{state}: there are no engines", BAD_INPUT)
    lock = FolderLock(state)
    try:
        disown(state)
    finally:
        lock.release()
