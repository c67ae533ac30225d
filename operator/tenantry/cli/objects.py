"""Commands over declared objects: get, describe, apply, delete, reconcile, suspend, resume, trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.options import STATE, Everywhere, Namespace, Object, Output, State, Watch
from tenantry.cli.output import Format, Table, name_of, print_documents, print_table, to_json, to_yaml, write

if TYPE_CHECKING:
    from tenantry.cli.kinds import KindName
    from tenantry.hosts.console import Console
    from tenantry.model.resource import Document


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("get")(get)
    app.command("describe")(describe)
    app.command("delete")(delete)
    app.command("trace")(trace)


def kind_names(incomplete: str) -> list[str]:
    """Completion of KIND."""
    from tenantry.cli.kinds import kinds

    return [kind.plural for kind in kinds() if kind.plural.startswith(incomplete)]


def get(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Such as environments, tenv or app.", autocompletion=kind_names)],
    name: Annotated[str, typer.Argument(metavar="[NAME]")] = "",
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    output: Output = Format.TABLE,
    watch: Watch = False,
    state: State = STATE,
) -> None:
    """Lists the objects of a kind, or shows one."""
    from tenantry.cli.connect import with_console

    namespace = "" if everywhere else namespace
    with_console(state, lambda console: _get(console, kind, name, namespace, output, watch))


async def _get(console: Console, kind_: str, name_: str, namespace: str, output: Format, watch: bool) -> None:
    from tenantry.cli.finding import choose, split

    kind, given, name = split(kind_, name_)
    namespace = given or namespace
    documents = await console.list(kind.kind)
    if name:
        documents = [choose(documents, kind, namespace, name)]
    elif namespace:
        documents = [each for each in documents if each["metadata"].get("namespace") == namespace]
    table = _show(documents, kind, output, single=bool(name))
    if watch:
        shown = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in documents}
        async for document in _changes(console, kind.kind, namespace, name, shown):
            _show_change(document, kind, output, table)


def _show(documents: Sequence[Document], kind: KindName, output: Format, single: bool) -> Table | None:
    """Prints them; the table tells how wide its columns are."""
    if output not in (Format.TABLE, Format.WIDE):
        print_documents(documents, output, single)
        return None
    columns = kind.table(output is Format.WIDE)
    table = Table([title for title, _ in columns], [[cell(each) for _, cell in columns] for each in documents])
    if documents:
        print_table(table)
    else:
        typer.echo(f"there are no {kind.plural} here", err=True)
    return table


def _show_change(document: Document, kind: KindName, output: Format, table: Table | None) -> None:
    if table is None:
        print_documents([document], output, single=True)
        return
    write(table.line([cell(document) for _, cell in kind.table(output is Format.WIDE)]))


async def _changes(console: Console, kind: str, namespace: str, name: str, shown: dict[str, str]) -> AsyncIterator[Document]:
    """What changes after what is shown."""
    async for event in console.watch(kind):
        metadata = event.document["metadata"]
        if (name and metadata["name"] != name) or (namespace and metadata.get("namespace") != namespace):
            continue
        if event.type == "ADDED" and shown.get(metadata["uid"]) == metadata["resourceVersion"]:
            continue
        yield event.document


def describe(
    object_: Object,
    name: Annotated[str, typer.Argument(metavar="[NAME]")] = "",
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Shows one object in full: its spec, its conditions, what blocks its deletion, and its last Operations."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _describe(console, object_, namespace, name))


async def _describe(console: Console, object_: str, namespace: str, name: str) -> None:
    from tenantry.cli.describing import described
    from tenantry.cli.finding import find

    kind, document = await find(console, object_, namespace, name)
    operations = await console.list("Operation")
    target = document["metadata"]["uid"]
    write(described(kind, document, [each for each in operations if each["spec"]["target"]["uid"] == target]))


def delete(object_: Object, namespace: Namespace = "", state: State = STATE) -> None:
    """Deletes an object. Objects that a source declares are removed there."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _delete(console, object_, namespace))


async def _delete(console: Console, object_: str, namespace: str) -> None:
    from tenantry.cli.finding import find
    from tenantry.model.resource import ref_of

    _, document = await find(console, object_, namespace)
    deleted = await console.delete(ref_of(document))
    remains = bool(deleted["metadata"].get("finalizers"))
    write(f"{name_of(document)} {'is being deleted' if remains else 'deleted'}")


def trace(object_: Object, namespace: Namespace = "", output: Output = Format.TABLE, state: State = STATE) -> None:
    """Walks from a running thing to where it is declared, and who asked for it last."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _trace(console, object_, namespace, output))


async def _trace(console: Console, object_: str, namespace: str, output: Format) -> None:
    from tenantry.cli.finding import find
    from tenantry.cli.tracing import above, step

    _, document = await find(console, object_, namespace)
    steps = [step(each) for each in [document, *await above(console, document)]]
    if output is Format.JSON:
        write(to_json(steps))
    elif output is Format.YAML:
        write(to_yaml(steps))
    else:
        titles = ("OBJECT", "SOURCE", "DECLARED AT", "COMMIT", "AUTHOR", "REQUESTED BY", "LAST OPERATION")
        keys = ("object", "source", "file", "commit", "author", "requestedBy", "lastOperation")
        shown = [each | {"commit": each["commit"][:12]} for each in steps]
        print_table(Table(titles, [[each[key] for key in keys] for each in shown]))
