"""Commands over Operations: operations, logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import completing
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Namespace, Output, State, Watch
from tenantry.cli.output.documents import OutputFormat, print_documents, write
from tenantry.cli.output.failing import Failure, say
from tenantry.cli.output.tables import Layout, TextTable, print_row, print_table

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

LIMIT = 50
TITLES = ("ID", "ACTION", "TARGET", "STATUS", "RESULT", "CODE", "BY", "AGE")
WIDE = (*TITLES, "DETAILS")
IMPORTANT = frozenset({"ID", "ACTION", "TARGET", "RESULT"})
"""Titles that a narrow terminal shows too."""


Target = Annotated[str, typer.Argument(metavar="KIND/NAME", help="Only those of this object.", autocompletion=completing.objects)]
OperationId = Annotated[
    str,
    typer.Argument(metavar="OP", help="An Operation's id, or the start of it.", autocompletion=completing.operation_ids),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(
        "operations",
        epilog=examples(
            "tenantry operations --status RUNNING", "tenantry operations --tenant acme --action INSTALL_APP --since 24h"
        ),
    )(operations)
    app.command("logs", epilog=examples("tenantry logs op-4c1f -f"))(logs)


def operations(
    target: Target = "",
    namespace: Namespace = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Only those of this tenant: its name, uid or id in REST.")] = "",
    environment: Annotated[str, typer.Option("--environment", help="Only those about the environment of this id in REST.")] = "",
    action: Annotated[str, typer.Option("--action", help="Only those of this action, such as INSTALL_APP.")] = "",
    status: Annotated[str, typer.Option("--status", help="Only those that are QUEUED, RUNNING or COMPLETED.")] = "",
    since: Annotated[str, typer.Option("--since", help="Only those made at this time or later, or within this time: 2h.")] = "",
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="The number of Operations at most, the newest; 0: all.")
    ] = LIMIT,
    output: Output = OutputFormat.TABLE,
    watch: Watch = False,
    state: State = STATE,
) -> None:
    """Lists Operations, newest first, those of deleted tenants and environments included."""
    from tenantry.cli.arguments.operation_filters import wanted_by
    from tenantry.cli.clients.connect import with_console

    wanted = wanted_by(target, namespace, tenant, environment, action, status, since, datetime.now(UTC))
    with_console(state, lambda console: _operations(console, wanted, limit, output, watch))


async def _operations(
    console: Console, wanted: Callable[[Document], bool], limit: int, output: OutputFormat, watch: bool
) -> None:
    from tenantry.cli.commands.objects.describing import newest_first

    found = newest_first([each for each in await console.list("Operation") if wanted(each)])
    shown = found[:limit] if limit else found
    wide = output is OutputFormat.WIDE
    table = TextTable(WIDE if wide else TITLES, [_row(each, wide) for each in shown], None if wide else IMPORTANT)
    layout = table.layout(None)
    if output in (OutputFormat.TABLE, OutputFormat.WIDE):
        layout = print_table(table)
        if not found:
            say("no Operation that is kept fits; they stay for some time after their object is gone")
    else:
        print_documents(shown, output, single=False)
    if len(found) > len(shown):
        older = len(found) - len(shown)
        say(f"{older} older {'one is' if older == 1 else 'ones are'} not shown; --limit 0 shows all")
    if watch:
        await _watch(console, wanted, found, output, (table, layout))


async def _watch(
    console: Console,
    wanted: Callable[[Document], bool],
    found: list[Document],
    output: OutputFormat,
    shown_as: tuple[TextTable, Layout],
) -> None:
    seen = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}
    async for event in console.watch("Operation"):
        metadata = event.document["metadata"]
        known = event.type == "ADDED" and seen.get(metadata["name"]) == metadata["resourceVersion"]
        if known or event.type == "DELETED" or not wanted(event.document):
            continue
        if output in (OutputFormat.TABLE, OutputFormat.WIDE):
            print_row(shown_as[0], _row(event.document, output is OutputFormat.WIDE), shown_as[1])
        else:
            print_documents([event.document], output, single=True)


def logs(
    operation: OperationId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the Operation is completed.")] = False,
    state: State = STATE,
) -> None:
    """Prints the whole log of an Operation."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _logs(console, operation, follow))


async def _logs(console: Console, start: str, follow: bool) -> None:
    found = [each for each in await console.list("Operation") if each["metadata"]["name"].startswith(start)]
    exact = [each for each in found if each["metadata"]["name"] == start]
    if not found:
        raise Failure(f"there is no Operation {start}; `tenantry operations` lists them")
    if len(found) > 1 and not exact:
        raise Failure(f"{len(found)} Operations start with {start}; write more of the id")
    name = (exact or found)[0]["metadata"]["name"]
    printed = await console.log(name)
    _put(printed)
    if not follow:
        return
    async for event in console.watch("Operation"):
        if event.document["metadata"]["name"] != name:
            continue
        whole = await console.log(name)
        _put(whole[len(printed) :])
        printed = whole
        if event.document["status"]["status"] == "COMPLETED":
            return


def _put(text: str) -> None:
    if text:
        write(text.rstrip("\n"))


def _row(operation: Document, wide: bool) -> list[str]:
    from tenantry.cli.arguments.kinds import aged

    spec, status = operation["spec"], operation["status"]
    target = spec["target"]
    row = [
        operation["metadata"]["name"],
        spec["action"],
        "/".join(filter(None, (target["kind"].lower(), target.get("namespace"), target["name"]))),
        status["status"],
        status["result"],
        status.get("code", ""),
        spec.get("requestedBy", ""),
        aged(operation["metadata"]["creationTimestamp"]),
    ]
    return [*row, status.get("details", "")] if wide else row
