"""Options that several commands share."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.output import Format

State = Annotated[Path, typer.Option("--state", envvar="TENANTRY_STATE", help="The platform's state folder.")]
STATE = Path(".tenantry")
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Only in this namespace; all where absent.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces, as without --namespace.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="How it is printed.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Goes on printing what changes.")]
Object = Annotated[str, typer.Argument(metavar="KIND/NAME", help="Such as environment/dev or tapp/tenant-acme/dev.crm.")]
Server = Annotated[
    str, typer.Option("--server", envvar="TENANTRY_SERVER", help="URL of the facade; the running `up` where absent.")
]
Token = Annotated[str, typer.Option("--token", envvar="TENANTRY_TOKEN", help="Bearer token for --server.")]


@dataclass(frozen=True)
class ClusterChoice:
    """The cluster that client commands speak to. None: the kubeconfig, or its context, that kubectl would use."""

    kubeconfig: Path | None
    context: str | None


CLUSTER: ContextVar[ClusterChoice | None] = ContextVar("CLUSTER", default=None)
"""The cluster that the command line names, None for a state folder."""


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h`. Raises Failure."""
    from tenantry.settings import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None
