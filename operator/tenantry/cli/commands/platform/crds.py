"""`tenantry crds`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.output.documents import write


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("crds", epilog=examples("tenantry crds --out crds/"))(crds)


def crds(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Writes a file a kind into this folder.", callback=path_options.a_folder_or_none_yet),
    ] = None,
) -> None:
    """Prints the custom resource definitions, or writes them into a folder."""
    from tenantry.kinds import crds as definitions

    if out is None:
        write("---\n".join(definitions.render(each) for each in definitions.crds().values()).rstrip("\n"))
        return
    for path in definitions.write(out):
        write(str(path))
