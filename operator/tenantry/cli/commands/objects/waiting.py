"""`tenantry wait`: until an object is as one wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Name, Namespace, Object, State
from tenantry.cli.output.documents import name_of, write
from tenantry.cli.output.failing import BAD_INPUT, Failure

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

TIMEOUT = "5m"
DELETE = "delete"
CONDITION = "condition="
PAUSE_S = 0.5
"""Seconds between two looks for an object that is to go."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    shown = examples("tenantry wait environment/dev", "tenantry wait environment/dev --for delete --timeout 2m")
    app.command("wait", epilog=shown)(wait)


def wait(
    object_: Object,
    name: Name = "",
    for_: Annotated[
        str, typer.Option("--for", metavar="STATE", help="condition=TYPE, condition=TYPE=STATUS, or delete.")
    ] = f"{CONDITION}Ready",
    timeout: Annotated[str, typer.Option("--timeout", help="Exit with code 1 after this time.")] = TIMEOUT,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Waits until an object is Ready, has another condition, or is gone. For `delete`, one that is missing is gone."""
    from tenantry.cli.arguments.finding import joined
    from tenantry.cli.arguments.options import duration
    from tenantry.cli.clients.connect import with_console

    wanted = wanted_by(for_)
    seconds = duration(timeout).total_seconds()
    named = joined(object_, name)
    if wanted is None:
        with_console(state, lambda console: _wait_for_deletion(console, named, namespace, seconds))
    else:
        with_console(state, lambda console: _wait(console, named, namespace, wanted, seconds))


def wanted_by(text: str) -> tuple[str, str] | None:
    """Type and status of the condition; None for a deletion. Raises Failure."""
    if text == DELETE:
        return None
    type_, _, status = text.removeprefix(CONDITION).partition("=")
    if not text.startswith(CONDITION) or not type_:
        raise Failure(f"--for {text}: write condition=Ready, condition=Stalled=True or delete", BAD_INPUT)
    return type_, status or "True"


def holds(document: Document, wanted: tuple[str, str]) -> bool:
    """Return True if the object has that condition at its current generation."""
    from tenantry.model.resource import is_ready

    if wanted == ("Ready", "True"):
        return is_ready(document)
    status = document.get("status", {})
    current = status.get("observedGeneration") == document["metadata"].get("generation")
    return current and wanted in {(each["type"], each["status"]) for each in status.get("conditions", ())}


async def _wait(console: Console, object_: str, namespace: str, wanted: tuple[str, str], seconds: float) -> None:
    import asyncio

    from tenantry.cli.arguments.finding import find

    _, document = await find(console, object_, namespace)
    await _refuse_idle(console)
    last = document
    try:
        async with asyncio.timeout(seconds):
            async for event in console.watch(document["kind"]):
                if event.document["metadata"]["uid"] != document["metadata"]["uid"]:
                    continue
                last = event.document
                if event.type == "DELETED" or holds(last, wanted):
                    break
            else:
                raise Failure("the running platform ended")
    except TimeoutError:
        raise Failure(_not_yet(last, said(wanted), seconds)) from None
    if event.type == "DELETED":
        raise Failure(f"{name_of(document)} was deleted")
    write(f"{name_of(document)} is {said(wanted)}")


async def _wait_for_deletion(console: Console, object_: str, namespace: str, seconds: float) -> None:
    """Look again and again: a watch would not say that the object went before it began."""
    import asyncio

    from tenantry.cli.arguments.finding import find, split

    last = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    _, found = await find(console, object_, namespace)
                except Failure as failure:
                    if failure.code == BAD_INPUT:
                        raise
                    break
                if last is not None and found["metadata"]["uid"] != last["metadata"]["uid"]:
                    break  # another object of that name
                last = last or found
                await _refuse_idle(console)
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise Failure(_not_yet(last, "deleted", seconds) if last else "the platform does not answer") from None
    kind, _, name = split(object_)
    write(f"{kind.kind.lower()}/{name} is deleted")


async def _refuse_idle(console: Console) -> None:
    if not (await console.about()).url:
        raise Failure("nothing runs on this state folder, so the wait would never end; start `tenantry up`")


def said(wanted: tuple[str, str]) -> str:
    """`Ready`, or `Stalled=False`."""
    type_, status = wanted
    return type_ if status == "True" else f"{type_}={status}"


def _not_yet(document: Document, goal: str, seconds: float) -> str:
    from tenantry.model.resource import why

    _, reason, message = why(document)
    state = f"{reason}: {message}".rstrip(": ")
    return f"{name_of(document)} is not {goal} after {seconds:.0f} s: {state}"
