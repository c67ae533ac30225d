"""Commands over declared objects: get, describe, apply, delete, reconcile, suspend, resume, trace."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import (
    Condition,
    Everywhere,
    KindArgument,
    Labels,
    Name,
    Namespace,
    Object,
    Output,
    State,
    Watch,
)
from tenantry.cli.output.documents import OutputFormat, name_of, reference_of, to_json, to_yaml, write
from tenantry.cli.output.tables import TextTable, print_table, terminal_width

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

NAMESPACE = "Namespace"
MOST_NAMED = 20
"""Objects of a Namespace that its deletion names."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("get", epilog=examples("tenantry get environments", "tenantry get tenv dev -n tenant-acme -o yaml"))(get)
    app.command("describe", epilog=examples("tenantry describe environment/dev"))(describe)
    app.command("delete", epilog=examples("tenantry delete environment/tenant-acme/dev"))(delete)
    app.command("trace", epilog=examples("tenantry trace app/tenant-acme/dev.crm"))(trace)


def get(
    kind: KindArgument,
    name: Name = "",
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    labels: Labels = "",
    condition: Condition = "",
    output: Output = OutputFormat.TABLE,
    watch: Watch = False,
    state: State = STATE,
) -> None:
    """Lists the objects of a kind, or shows one."""
    from tenantry.cli.clients.connect import with_console
    from tenantry.cli.commands.objects.listing import chosen_by, show_objects

    chosen = chosen_by(kind, name, "" if everywhere else namespace, labels, condition)
    with_console(state, lambda console: show_objects(console, chosen, output, watch))


def describe(
    object_: Object,
    name: Name = "",
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Shows one object in full: its spec, its conditions, what blocks its deletion, and its last Operations."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _describe(console, object_, namespace, name))


async def _describe(console: Console, object_: str, namespace: str, name: str) -> None:
    from tenantry.cli.arguments.finding import find
    from tenantry.cli.commands.objects.describing import described

    kind, document = await find(console, object_, namespace, name)
    operations = await console.list("Operation")
    target = document["metadata"]["uid"]
    about = [each for each in operations if each["spec"]["target"]["uid"] == target]
    write(described(kind, document, about, terminal_width()))


def delete(object_: Object, name: Name = "", namespace: Namespace = "", state: State = STATE) -> None:
    """Deletes an object; of a Namespace, lists what it holds. Remove an object that a source declares from that source."""
    from tenantry.cli.arguments.finding import joined
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _delete(console, joined(object_, name), namespace))


async def _delete(console: Console, object_: str, namespace: str) -> None:
    from tenantry.cli.arguments.finding import find
    from tenantry.model.resource import ref_of

    _, document = await find(console, object_, namespace)
    held = await _held_by(console, document)
    deleted = await console.delete(ref_of(document))
    # A cluster's Namespace has the finalizer of what empties it in its spec.
    of_cluster = document["kind"] == NAMESPACE and deleted.get("spec", {}).get("finalizers")
    remains = deleted["metadata"].get("finalizers") or of_cluster
    write(f"{name_of(document)} {'is being deleted' if remains else 'deleted'}{'; it holds:' if held else ''}")
    for each in held[:MOST_NAMED]:
        write(f"  {each}")
    if len(held) > MOST_NAMED:
        write(f"  and {len(held) - MOST_NAMED} more")


async def _held_by(console: Console, document: Document) -> list[str]:
    """Return the objects that a Namespace holds, as far as the caller may list them; nothing for other kinds."""
    from tenantry.cli.arguments.kinds import kinds
    from tenantry.model.verdicts import Forbidden

    if document["kind"] != NAMESPACE:
        return []
    held: list[str] = []
    for kind in (each.kind for each in kinds() if each.namespaced):
        with suppress(Forbidden):
            found = await console.list(kind)
            held += [reference_of(each) for each in found if each["metadata"]["namespace"] == document["metadata"]["name"]]
    return held


def trace(
    object_: Object, name: Name = "", namespace: Namespace = "", output: Output = OutputFormat.TABLE, state: State = STATE
) -> None:
    """Shows where an object is declared, and who changed it last."""
    from tenantry.cli.arguments.finding import joined
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _trace(console, joined(object_, name), namespace, output))


async def _trace(console: Console, object_: str, namespace: str, output: OutputFormat) -> None:
    from tenantry.cli.arguments.finding import find
    from tenantry.cli.commands.objects.tracing import above, step

    _, document = await find(console, object_, namespace)
    steps = [step(each) for each in [document, *await above(console, document)]]
    if output is OutputFormat.JSON:
        write(to_json(steps))
    elif output is OutputFormat.YAML:
        write(to_yaml(steps))
    else:
        titles = ("OBJECT", "SOURCE", "DECLARED AT", "COMMIT", "AUTHOR", "REQUESTED BY", "LAST OPERATION")
        keys = ("object", "source", "file", "commit", "author", "requestedBy", "lastOperation")
        shown = [each | {"commit": each["commit"][:12]} for each in steps]
        columns = [(title, key) for title, key in zip(titles, keys, strict=True) if any(each[key] for each in shown)]
        rows = [[each[key] for _, key in columns] for each in shown]
        print_table(TextTable([title for title, _ in columns], rows, without_gaps=True))
