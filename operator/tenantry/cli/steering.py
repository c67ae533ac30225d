"""Commands that steer reconciliation: reconcile, suspend, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure, say
from tenantry.cli.options import STATE, Namespace, Object, State
from tenantry.cli.output import name_of, write
from tenantry.cli.source import DEFAULT_SOURCE

if TYPE_CHECKING:
    from tenantry.hosts.console import Console
    from tenantry.model.resource import Document

TIMEOUT = "5m"
SOURCE_KINDS = ("source", "sources", "src")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("reconcile")(reconcile)
    app.command("suspend")(suspend)
    app.command("resume")(resume)


def reconcile(
    object_: Object,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it was looked at again; exit code 1 unless it is Ready then.")
    ] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="How long --wait waits.")] = TIMEOUT,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Asks for a pass over an object, now. `source/NAME`, be it a Source or what `up` was given, is read and applied at once."""
    from tenantry.cli.connect import with_console
    from tenantry.cli.options import duration

    seconds = duration(timeout).total_seconds()
    with_console(state, lambda console: _look(console, object_, namespace, wait, seconds))


async def _look(console: Console, object_: str, namespace: str, wait: bool, seconds: float) -> None:
    kind, _, name = object_.partition("/")
    if kind.lower() in SOURCE_KINDS and not namespace and not await _is_source(console, name):
        await _sync(console, name or DEFAULT_SOURCE)
    else:
        await _reconcile(console, object_, namespace, wait, seconds)


async def _is_source(console: Console, name: str) -> bool:
    """Is it an object of the kind Source, rather than what `up` follows?"""
    return any(name.rpartition("/")[2] == each["metadata"]["name"] for each in await console.list("Source"))


async def _reconcile(console: Console, object_: str, namespace: str, wait: bool, seconds: float) -> None:
    import asyncio
    from datetime import UTC, datetime

    from tenantry.cli.finding import find
    from tenantry.model.resource import RECONCILE_REQUESTED, format_time, ref_of

    _, document = await find(console, object_, namespace)
    if wait and not (await console.about()).url:
        raise Failure("nothing runs on this state folder, so nothing would be waited for; start `tenantry up`")
    if wait and _is_suspended(document):
        raise Failure(f"{name_of(document)} is suspended; `tenantry resume` it first")
    asked = format_time(datetime.now(UTC))
    await console.patch(ref_of(document), {"metadata": {"annotations": {RECONCILE_REQUESTED: asked}}})
    if not wait:
        write(f"{name_of(document)} is asked for")
        return
    try:
        async with asyncio.timeout(seconds):
            after = await _handled(console, document, asked)
    except TimeoutError:
        raise Failure(f"{name_of(document)} was not done within {seconds:.0f} s") from None
    ready = _ready(after)
    if ready.get("status") != "True":
        raise Failure(f"{name_of(document)} is not Ready: {ready.get('reason', '')}: {ready.get('message', '')}")
    write(f"{name_of(document)} is Ready")


async def _sync(console: Console, name: str) -> None:
    report = await console.sync(name)
    if report.away:
        raise Failure(f"source/{name} cannot be read {report.away}")
    if report.problems:
        raise Failure("\n".join(report.problems))
    write(f"source/{name} is applied{f' at {report.revision[:12]}' if report.revision else ''}")
    if report.kept:
        say(f"{len(report.kept)} objects left it and are kept: `tenantry check` tells why")


async def _handled(console: Console, document: Document, asked: str) -> Document:
    """The object once a pass has answered that request and come to rest. Raises Failure when it is deleted meanwhile."""
    async for event in console.watch(document["kind"]):
        if event.document["metadata"]["uid"] != document["metadata"]["uid"]:
            continue
        if event.type == "DELETED":
            raise Failure(f"{name_of(document)} was deleted")
        status = event.document.get("status", {})
        types = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        if status.get("lastHandledReconcileAt") == asked and "Reconciling" not in types:
            return event.document
    raise Failure("the running platform went away")


def _ready(document: Document) -> dict[str, str]:
    conditions = document.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Ready"), {})


def _is_suspended(document: Document) -> bool:
    from tenantry.kinds.registry import TYPES

    return document["kind"] in TYPES and TYPES[document["kind"]].model_validate(document).suspended


def suspend(object_: Object, namespace: Namespace = "", state: State = STATE) -> None:
    """Stops the reconciliation of an object; what runs goes on running."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _suspend(console, object_, namespace, True))


def resume(object_: Object, namespace: Namespace = "", state: State = STATE) -> None:
    """Takes up the reconciliation of a suspended object."""
    from tenantry.cli.connect import with_console

    with_console(state, lambda console: _suspend(console, object_, namespace, False))


async def _suspend(console: Console, object_: str, namespace: str, value: bool) -> None:
    from tenantry.cli.finding import find
    from tenantry.kinds.registry import KINDS
    from tenantry.model.resource import SOURCE, SOURCE_FILE, SUSPEND, ref_of

    _, document = await find(console, object_, namespace)
    if document["kind"] not in KINDS:
        raise Failure(f"nothing is done to {name_of(document)} that could be suspended", BAD_INPUT)
    patch: Document = {"metadata": {"annotations": {SUSPEND: "true" if value else None}}}
    if "suspend" in document.get("spec", {}):
        patch = {"spec": {"suspend": value}} if value else {"spec": {"suspend": False}, **patch}
    await console.patch(ref_of(document), patch)
    write(f"{name_of(document)} {'suspended' if value else 'resumed'}")
    metadata = document["metadata"]
    if metadata.get("labels", {}).get(SOURCE):
        place = metadata.get("annotations", {}).get(SOURCE_FILE, "its file")
        say(f"it is declared at {place}: the next sync of that source brings back what stands there")
