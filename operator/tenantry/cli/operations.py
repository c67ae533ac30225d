"""Commands over Operations: operations, logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.failing import Failure
from tenantry.cli.options import STATE, Namespace, Output, State, Watch
from tenantry.cli.output import Format, Table, print_documents, print_table, write

if TYPE_CHECKING:
    from tenantry.hosts.console import Console
    from tenantry.model.resource import Document

LIMIT = 50
TITLES = ("ID", "ACTION", "TARGET", "STATUS", "RESULT", "CODE", "BY", "AGE")
WIDE = (*TITLES, "DETAILS")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("operations")(operations)
    app.command("logs")(logs)


def operations(
    target: Annotated[str, typer.Argument(metavar="[KIND/NAME]", help="Only those of this object.")] = "",
    namespace: Namespace = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Only those of this tenant: its name, uid or id in REST.")] = "",
    environment: Annotated[str, typer.Option("--environment", help="Only those about the environment of this id in REST.")] = "",
    action: Annotated[str, typer.Option("--action", help="Only those of this action, such as INSTALL_APP.")] = "",
    status: Annotated[str, typer.Option("--status", help="Only those that are QUEUED, RUNNING or COMPLETED.")] = "",
    since: Annotated[str, typer.Option("--since", help="Only those made at this time or later, or within this time: 2h.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many at most, the newest; 0 for all.")] = LIMIT,
    output: Output = Format.TABLE,
    watch: Watch = False,
    state: State = STATE,
) -> None:
    """Lists Operations, newest first, those of deleted tenants and environments included.

    Examples: `tenantry operations --status RUNNING`, `tenantry operations --tenant acme --action INSTALL_APP --since 24h`.
    """
    from tenantry.cli.connect import with_console
    from tenantry.cli.operation_filters import wanted_by

    wanted = wanted_by(target, namespace, tenant, environment, action, status, since, datetime.now(UTC))
    with_console(state, lambda console: _operations(console, wanted, limit, output, watch))


async def _operations(console: Console, wanted: Callable[[Document], bool], limit: int, output: Format, watch: bool) -> None:
    from tenantry.cli.describing import newest_first

    found = newest_first([each for each in await console.list("Operation") if wanted(each)])
    shown = found[:limit] if limit else found
    wide = output is Format.WIDE
    table = Table(WIDE if wide else TITLES, [_row(each, wide) for each in shown])
    if output in (Format.TABLE, Format.WIDE):
        print_table(table)
    else:
        print_documents(shown, output, single=False)
    if len(found) > len(shown):
        typer.echo(f"{len(found) - len(shown)} older ones are not shown; --limit 0 shows all", err=True)
    if watch:
        await _watch(console, wanted, found, output, table)


async def _watch(
    console: Console, wanted: Callable[[Document], bool], found: list[Document], output: Format, table: Table
) -> None:
    seen = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}
    async for event in console.watch("Operation"):
        metadata = event.document["metadata"]
        known = event.type == "ADDED" and seen.get(metadata["name"]) == metadata["resourceVersion"]
        if known or event.type == "DELETED" or not wanted(event.document):
            continue
        if output in (Format.TABLE, Format.WIDE):
            write(table.line(_row(event.document, output is Format.WIDE)))
        else:
            print_documents([event.document], output, single=True)


def logs(
    operation: Annotated[str, typer.Argument(metavar="OP", help="An Operation's id, or the start of it.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Goes on until it is completed.")] = False,
    state: State = STATE,
) -> None:
    """Prints the whole log of an Operation."""
    from tenantry.cli.connect import with_console

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
    from tenantry.cli.kinds import aged

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
