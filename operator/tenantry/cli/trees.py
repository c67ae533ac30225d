"""`tenantry tree`: tenants, their environments, and what is in each, with its state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.options import STATE, State
from tenantry.cli.terminal import visible

if TYPE_CHECKING:
    from tenantry.hosts.console import Console
    from tenantry.model.resource import Document

INSIDE = ("App", "Identity", "IdentityProvider")
_LABELS = {"App": "app", "Identity": "identity", "IdentityProvider": "provider"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("tree")(tree)


def tree(tenant: Annotated[str, typer.Argument(metavar="[TENANT]", help="Only this tenant.")] = "", state: State = STATE) -> None:
    """Shows tenants, their environments, and the apps, identities and providers of each."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _tree(console, tenant))


async def _tree(console: Console, tenant: str) -> None:
    from tenantry.cli.finding import choose
    from tenantry.cli.kinds import find_kind

    tenants = await console.list("Tenant")
    if tenant:
        tenants = [choose(tenants, find_kind("tenant"), "", tenant)]
    if not tenants:
        typer.echo("there are no tenants here", err=True)
    environments = await console.list("Environment")
    inside = [document for kind in INSIDE for document in await console.list(kind)]
    for each in tenants:
        for line in branch(each, environments, inside):
            typer.echo(visible(line))


def branch(tenant: Document, environments: Sequence[Document], inside: Sequence[Document]) -> Iterator[str]:
    """The lines of one tenant."""
    from tenantry.cli.tracing import bound_namespace

    namespace = bound_namespace(tenant)
    yield f"tenant {tenant['metadata']['name']}  {state_of(tenant)}"
    own = [each for each in environments if each["metadata"]["namespace"] == namespace]
    for environment, lead, indent in _led(own):
        name, url = environment["metadata"]["name"], environment.get("status", {}).get("url", "")
        yield f"{lead}environment {name}  {state_of(environment)}" + (f"  {url}" if url else "")
        children = [each for each in inside if (each["metadata"]["namespace"], each["spec"]["environment"]) == (namespace, name)]
        for child, child_lead, _ in _led(children):
            yield f"{indent}{child_lead}{_label(child)}  {state_of(child)}"


def state_of(document: Document) -> str:
    """Ready, or the reason why it is not."""
    if document["metadata"].get("deletionTimestamp"):
        return "Deleting"
    conditions = {each["type"]: each for each in document.get("status", {}).get("conditions", ())}
    ready = conditions.get("Ready")
    if ready is None:
        return "Pending"
    return "Ready" if ready["status"] == "True" else f"{ready.get('reason', '')}: {ready.get('message', '')}".rstrip(": ")


def _label(document: Document) -> str:
    spec = document["spec"]
    kind = _LABELS[document["kind"]]
    if document["kind"] == "App":
        return f"{kind} {spec['app']} {document.get('status', {}).get('installedVersion', '')}".rstrip()
    return f"{kind} {spec.get('username') or spec.get('displayName') or document['metadata']['name']}"


def _led(documents: Sequence[Document]) -> Iterator[tuple[Document, str, str]]:
    """Each with what stands before its line, and before the lines below it."""
    for number, document in enumerate(documents, 1):
        yield (document, "└── ", "    ") if number == len(documents) else (document, "├── ", "│   ")
