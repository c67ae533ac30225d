"""`tenantry version`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.output.documents import write
from tenantry.cli.output.failing import Failure


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("version", epilog=examples("tenantry version", "tenantry version --verify"))(version)


def version(
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Checks the installed files against the digests of their package; exit 1: some differ."),
    ] = False,
) -> None:
    """Prints the release."""
    from tenantry.rest.release import release_label

    write(release_label())
    if verify:
        _verify()


def _verify() -> None:
    from importlib.metadata import distribution

    from tenantry.cli.clients.installed_files import survey

    found = survey(distribution("tenantry"))
    if found.wrong:
        raise Failure("\n".join(found.wrong))
    write(f"{found.checked} {'file is as it was' if found.checked == 1 else 'files are as they were'} installed")
