"""Tenants and what is in them, as the lines of a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tenantry.cli.arguments.finding import choose
from tenantry.cli.arguments.kinds import contents, find_kind
from tenantry.cli.output.documents import write
from tenantry.cli.output.failing import say
from tenantry.model.documents import Document, namespace_of

if TYPE_CHECKING:
    from tenantry.cli.clients.control_reads import ConsoleReads


async def show_tree(console: ConsoleReads, tenant: str) -> None:
    """Print all tenants, or the one of that name. Raises Failure, Halt."""
    tenants = await console.list("Tenant")
    if tenant:
        tenants = [choose(tenants, find_kind("tenant"), "", tenant)]
    environments = await console.list("Environment")
    inside = [document for kind in contents() for document in await console.list(kind)]
    if not tenants:
        say("there are no tenants here")
    for each in tenants:
        for line in branch(each, environments, inside):
            write(line)


def branch(tenant: Document, environments: Sequence[Document], inside: Sequence[Document]) -> Iterator[str]:
    """The lines of one tenant."""
    namespace = namespace_of(tenant)
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
    kind = re.sub(r".*(?=[A-Z])", "", document["kind"]).lower()
    if document["kind"] == "App":
        return f"{kind} {spec['app']} {document.get('status', {}).get('installedVersion', '')}".rstrip()
    return f"{kind} {spec.get('username') or spec.get('displayName') or document['metadata']['name']}"


def _led(documents: Sequence[Document]) -> Iterator[tuple[Document, str, str]]:
    """Each with what stands before its line, and before the lines below it."""
    for number, document in enumerate(documents, 1):
        yield (document, "└── ", "    ") if number == len(documents) else (document, "├── ", "│   ")
