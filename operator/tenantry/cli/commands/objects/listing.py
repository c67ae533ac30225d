"""Lists of objects as tables or documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tenantry.cli.arguments.finding import agreed, choose, split
from tenantry.cli.arguments.kinds import KindName
from tenantry.cli.arguments.selecting import having, selector
from tenantry.cli.output.documents import OutputFormat, print_documents
from tenantry.cli.output.failing import say
from tenantry.cli.output.tables import Layout, TextTable, print_row, print_table
from tenantry.model.documents import Document

if TYPE_CHECKING:
    from tenantry.cli.clients.control_reads import ConsoleReads


class Chosen(NamedTuple):
    """The objects that `get` shows, as they were asked for. sought: what they must have, for people."""

    kind: str
    name: str
    namespace: str
    selects: Callable[[Document], bool]
    sought: str


def chosen_by(kind: str, name: str, namespace: str, labels: str, condition: str = "") -> Chosen:
    """Return the choice of objects by labels, and by a condition that is True. Raises Failure."""
    labelled, has = selector(labels), having(condition)
    sought = " and ".join(filter(None, ("these labels" if labels else "", f"the condition {condition}" if condition else "")))
    return Chosen(kind, name, namespace, lambda document: has(document) and labelled(document), sought)


async def show_objects(console: ConsoleReads, chosen: Chosen, output: OutputFormat, watch: bool) -> None:
    """Print the objects, and with `watch` each that changes, without end. Raises Failure, Halt."""
    kind, given, name = split(chosen.kind, chosen.name)
    namespace = agreed(given, chosen.namespace)
    documents = await console.list(kind.kind)
    followed = await _followed(console) if kind.kind == "Source" and not (name or namespace) else ""
    if name:
        documents = [choose(documents, kind, namespace, name)]
    elif namespace:
        documents = [each for each in documents if each["metadata"].get("namespace") == namespace]
    selected = [each for each in documents if chosen.selects(each)]
    shown_as = _show(selected, kind, output, single=bool(name))
    if not selected and shown_as is not None:
        some = f"none of the {len(documents)} {kind.plural} here has {chosen.sought}"
        say(some if documents else f"there are no {kind.plural} here")
    if followed and shown_as is not None:
        say(followed)
    if watch:
        shown = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in selected}
        async for document in _changes(console, kind.kind, namespace, name, shown):
            if chosen.selects(document):
                _show_change(document, kind, output, shown_as)


async def _followed(console: ConsoleReads) -> str:
    """A sentence about the source that `up` follows, which is not an object; `""` where it follows none."""
    from tenantry.model.verdicts import NotFound

    try:
        report = await console.source()
    except NotFound:
        return ""
    return f"`up` follows {report.location} as the source {report.name}, which is not an object; `tenantry check` shows its state"


def _show(documents: Sequence[Document], kind: KindName, output: OutputFormat, single: bool) -> tuple[TextTable, Layout] | None:
    """Print them. Return the table, whose layout later changes keep."""
    if output not in (OutputFormat.TABLE, OutputFormat.WIDE):
        print_documents(documents, output, single)
        return None
    table = table_of(kind, documents, output is OutputFormat.WIDE)
    return table, print_table(table) if documents else table.layout(None)


def table_of(kind: KindName, documents: Sequence[Document], wide: bool) -> TextTable:
    """The list of objects of a kind; a wide one leaves out no column."""
    columns = kind.table(wide)
    rows = [[cell(each) for _, cell in columns] for each in documents]
    return TextTable([title for title, _ in columns], rows, None if wide else kind.important)


def _show_change(document: Document, kind: KindName, output: OutputFormat, shown_as: tuple[TextTable, Layout] | None) -> None:
    if shown_as is None:
        print_documents([document], output, single=True)
        return
    table, layout = shown_as
    print_row(table, [cell(document) for _, cell in kind.table(output is OutputFormat.WIDE)], layout)


async def _changes(console: ConsoleReads, kind: str, namespace: str, name: str, shown: dict[str, str]) -> AsyncIterator[Document]:
    """Yield objects that change after they were shown."""
    async for event in console.watch(kind):
        metadata = event.document["metadata"]
        if (name and metadata["name"] != name) or (namespace and metadata.get("namespace") != namespace):
            continue
        if event.type == "ADDED" and shown.get(metadata["uid"]) == metadata["resourceVersion"]:
            continue
        yield event.document
