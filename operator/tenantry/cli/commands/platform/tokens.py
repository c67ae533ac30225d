"""`tenantry token`."""

from __future__ import annotations

from typing import Annotated

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import State, duration
from tenantry.cli.output.documents import write

ADMIN = "admin"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("token", epilog=examples("tenantry token --user admin --ttl 15m"))(token)


def token(
    user: Annotated[str, typer.Option("--user", help="The username of a User.")] = ADMIN,
    ttl: Annotated[str, typer.Option("--ttl", help="The time for which it is valid.")] = "1h",
    state: State = STATE,
) -> None:
    """Prints a bearer token for the REST interface."""
    from tenantry.cli.clients.connect import with_console

    holds = duration(ttl)
    write(with_console(state, lambda console: console.token(user, holds)))
