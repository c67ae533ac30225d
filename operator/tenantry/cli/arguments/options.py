"""Options that several commands share."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import completing, path_options
from tenantry.cli.output.documents import LogFormat, OutputFormat
from tenantry.cli.output.failing import BAD_INPUT, Failure, say

if TYPE_CHECKING:
    from tenantry.model.facts import Trust

State = Annotated[
    Path,
    typer.Option(
        "--state",
        envvar="TENANTRY_STATE",
        help="The platform's state folder.",
        callback=path_options.a_folder_or_none_yet,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Destroy rows without asking.")]
SourceName = Annotated[str, typer.Option("--source-name", help="The name of the source, which marks its objects.")]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", help="Only in this namespace. Default: all namespaces.", autocompletion=completing.namespaces
    ),
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces, as without --namespace.")]
Output = Annotated[
    OutputFormat, typer.Option("--output", "-o", metavar="FORM", help="The form: table, wide, json, yaml or name.")
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Keep printing objects that change.")]
Labels = Annotated[str, typer.Option("--selector", "-l", help="Only objects with these labels: team=crm,tier!=test.")]
Condition = Annotated[
    str, typer.Option("--condition", metavar="TYPE", help="Only objects of which that condition is True, such as Stalled or Hot.")
]
Object = Annotated[
    str,
    typer.Argument(
        metavar="KIND/NAME",
        help="Such as environment/dev or tapp/tenant-acme/dev.crm.",
        autocompletion=completing.objects,
    ),
]
KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help="Such as environments, tenv or app.", autocompletion=completing.kind_names)
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name, if the first word is only a kind.", autocompletion=completing.names)
]
Log = Annotated[LogFormat, typer.Option("--log-format", help="Lines for people, or a JSON object a line.")]
Server = Annotated[str, typer.Option("--server", envvar="TENANTRY_SERVER", help="URL of the facade. Default: the running `up`.")]
Token = Annotated[str, typer.Option("--token", envvar="TENANTRY_TOKEN", help="Bearer token for --server.")]

EncryptTo = Annotated[
    list[str] | None, typer.Option("--encrypt-to", metavar="AGE1...", help="Encrypt it to that public key of age; repeatable.")
]
Identity = Annotated[
    Path | None,
    typer.Option(
        "--identity", metavar="FILE", help="The file of the age key that opens the backup.", callback=path_options.a_file
    ),
]
TrustKeys = Annotated[
    list[str] | None,
    typer.Option("--trust", metavar="KEY", help="Take a backup signed by that key, which `backup` printed; repeatable."),
]
Unprotected = Annotated[
    bool, typer.Option("--unprotected", help="Take a backup though nobody trusted signed it, or a release that signed nothing.")
]


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h`. Raises Failure."""
    from tenantry.model.documents import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None


def trust_of(keys: list[str] | None, unprotected: bool, archive: str) -> Trust:
    """Raises Invalid for what is not a key. Says so if nothing need vouch for the archive."""
    from tenantry.adapters.local.signing import check_public
    from tenantry.model.facts import Trust

    for each in keys or ():
        check_public(each)
    if unprotected:
        say(f"warning: {archive}: --unprotected accepts it even if nothing vouches for its content")
    return Trust(tuple(keys or ()), unprotected)
