"""`tenantry tree`: tenants, their environments, and what is in each, with its state."""

from __future__ import annotations

from typing import Annotated

import typer

from tenantry.cli.arguments import completing
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import State


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("tree", epilog=examples("tenantry tree acme"))(tree)


def tree(
    tenant: Annotated[
        str, typer.Argument(metavar="TENANT", help="Only this tenant. Default: all.", autocompletion=completing.tenants)
    ] = "",
    state: State = STATE,
) -> None:
    """Shows tenants, their environments, and the apps, identities and providers of each."""
    from tenantry.cli.clients.connect import with_console
    from tenantry.cli.commands.objects.branches import show_tree

    with_console(state, lambda console: show_tree(console, tenant))
