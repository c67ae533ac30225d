"""Backups of environments, and what to do without one: backup, backups, restore, accept-empty."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.options import STATE, Namespace, Output, State
from tenantry.cli.output import Format, Table, print_table, to_json, to_yaml, write

if TYPE_CHECKING:
    from tenantry.hosts.console import Console
    from tenantry.model.facts import BackupFacts

TITLES = ("ID", "ENVIRONMENT", "TAKEN", "SIZE", "KEPT UNTIL")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("backup")(backup)
    app.command("backups")(backups)
    app.command("restore")(restore)
    app.command("accept-empty")(accept_empty)


def backup(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="An environment, NAME or NAMESPACE/NAME.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Backs an environment up to a file, while it runs."""
    from tenantry.cli.connect import with_console

    if not out.absolute().parent.is_dir() or out.is_dir():
        raise Failure(f"{out}: no file can be written there", BAD_INPUT)
    with_console(state, lambda console: _backup(console, environment, namespace, out.absolute()))


async def _backup(console: Console, environment: str, namespace: str, out: Path) -> None:
    from tenantry.cli.finding import find
    from tenantry.model.resource import ref_of

    _, document = await find(console, f"environment/{environment.removeprefix('environment/')}", namespace)
    facts = await console.backup(ref_of(document), str(out))
    write(f"{out}  {size_text(facts.size)}")


def backups(output: Output = Format.TABLE, state: State = STATE) -> None:
    """Lists the archives of removed environments, the newest first."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _backups(console, output))


async def _backups(console: Console, output: Format) -> None:
    found = await console.backups()
    match output:
        case Format.JSON:
            write(to_json([asdict(each) for each in found]))
        case Format.YAML:
            write(to_yaml([asdict(each) for each in found]))
        case Format.NAME:
            for each in found:
                write(each.id)
        case Format.WIDE:
            print_table(Table((*TITLES, "PATH"), [(*_row(each), each.path) for each in found]))
        case Format.TABLE:
            print_table(Table(TITLES, [_row(each) for each in found]))


def restore(
    archive: Annotated[str, typer.Argument(metavar="FILE|ID", help="A backup, or the id of a removed environment.")],
    as_: Annotated[str, typer.Option("--as", metavar="NAMESPACE/NAME", help="What it is called; as it was where absent.")] = "",
    unprotected: Annotated[
        bool, typer.Option("--unprotected", help="Take a FILE of a release that wrote no digests: damage is not noticed.")
    ] = False,
    state: State = STATE,
) -> None:
    """Makes an environment again, with its id, its data and what was declared in it."""
    from tenantry.cli.connect import with_console

    namespace, _, name = as_.partition("/")
    if as_ and (not (namespace and name) or "/" in name):
        raise Failure(f"--as: {as_!r} is no name; write NAMESPACE/NAME", BAD_INPUT)
    # The platform may run in another folder than this command.
    place = str(Path(archive).absolute()) if Path(archive).is_file() else archive
    if not unprotected:
        return with_console(state, lambda console: _restore(console, place, namespace, name))
    from tenantry.adapters.local.archives import protected
    from tenantry.adapters.local.members import scratch_folder

    if not Path(archive).is_file():
        raise Failure("--unprotected needs the file of the backup; `tenantry backups -o wide` shows it", BAD_INPUT)
    with scratch_folder(Path(place).parent) as folder:
        protected(Path(place), folder / "archive.tar")
        return with_console(state, lambda console: _restore(console, str(folder / "archive.tar"), namespace, name))


async def _restore(console: Console, archive: str, namespace: str, name: str) -> None:
    for applied in await console.restore(archive, namespace, name):
        write(f"{applied.ref} {'restored' if applied.outcome == 'created' else applied.outcome}")


def accept_empty(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="An environment, NAME or NAMESPACE/NAME.")],
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Lets an empty engine take the place of one whose data is missing. What is left of that one is kept aside.

    Example: tenantry accept-empty tenant-acme/dev
    """
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _accept_empty(console, environment, namespace))


async def _accept_empty(console: Console, environment: str, namespace: str) -> None:
    from datetime import UTC, datetime

    from tenantry.cli.finding import find
    from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, format_time, ref_of, why

    _, document = await find(console, f"environment/{environment.removeprefix('environment/')}", namespace)
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
