"""`tenantry secret set`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import State
from tenantry.cli.arguments.texts import standard_input, text_of
from tenantry.cli.output.documents import write
from tenantry.cli.output.failing import BAD_INPUT, Failure

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console


LARGEST = 2**20
"""Bytes of a value; a Secret of Kubernetes holds no more."""


class Purpose(StrEnum):
    """The values of the label `tenantry.dev/credential`: what kind of object may refer to the Secret."""

    USER = "user"
    IDENTITY = "identity"
    IDENTITY_PROVIDER = "identity-provider"
    ENVIRONMENT = "environment"
    REGION = "region"
    SOURCE = "source"


FOR = f"The kind of object that may refer to it: {', '.join(Purpose)}."


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(
        name="secret",
        help="Stores credentials.",
        no_args_is_help=True,
        epilog=examples("tenantry secret set tenant-acme/ada password=- --for identity < password"),
    )
    group.callback()(_group)
    group.command("set", epilog=examples("tenantry secret set tenant-acme/ada password=- --for identity < password"))(set_)
    app.add_typer(group)


def _group() -> None:
    """Stores credentials."""


def set_(
    secret: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME")],
    key: Annotated[str, typer.Argument(metavar="KEY=-", help="The value is read from standard input.")],
    purpose: Annotated[Purpose, typer.Option("--for", metavar="KIND", help=FOR)],
    state: State = STATE,
) -> None:
    """Sets one key of a Secret; other keys stay."""
    from tenantry.cli.clients.connect import with_console

    namespace, slash, name = secret.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise Failure(f"{secret!r} is not a Secret; write NAMESPACE/NAME", BAD_INPUT)
    field, _, source = key.partition("=")
    if not field or source != "-":
        raise Failure(
            f"write {field or 'KEY'}=- and give the value on standard input: arguments are seen by everybody", BAD_INPUT
        )
    value = value_of_input(f"{secret} {field}: ")
    with_console(state, lambda console: _set(console, namespace, name, field, value, purpose))
    write(f"secret/{name} set")


def value_of_input(prompt: str) -> str:
    """The value: typed by a person without echo, or standard input. Raises Failure if it is empty, no text or too large."""
    if sys.stdin.isatty():
        from getpass import getpass

        value = getpass(prompt)
    else:
        value = text_of(standard_input(LARGEST), "the value on standard input").removesuffix("\n").removesuffix("\r")
    if not value:
        raise Failure("the value on standard input is empty", BAD_INPUT)
    return value


async def _set(console: Console, namespace: str, name: str, field: str, value: str, purpose: Purpose) -> None:
    import base64

    from tenantry.model.resource import CREDENTIAL_LABEL, Ref
    from tenantry.model.verdicts import NotFound

    data = {field: base64.b64encode(value.encode()).decode()}
    labels = {CREDENTIAL_LABEL: purpose.value}
    try:
        await console.patch(Ref("Secret", namespace, name), {"metadata": {"labels": labels}, "data": data})
    except NotFound:
        metadata = {"namespace": namespace, "name": name, "labels": labels}
        await console.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
