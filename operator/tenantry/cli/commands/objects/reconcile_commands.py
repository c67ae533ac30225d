"""Commands that say when the platform acts: reconcile, suspend, resume, wake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import completing
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Name, Namespace, Object, State
from tenantry.cli.output.documents import name_of, write
from tenantry.cli.output.failing import BAD_INPUT, Failure, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

TIMEOUT = "5m"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("reconcile", epilog=examples("tenantry reconcile environment/dev --wait"))(reconcile)
    app.command("suspend", epilog=examples("tenantry suspend app/tenant-acme/dev.crm"))(suspend)
    app.command("resume", epilog=examples("tenantry resume app/tenant-acme/dev.crm"))(resume)
    app.command("wake", epilog=examples("tenantry wake tenant-acme/test --wait"))(wake)


def reconcile(
    object_: Object,
    name: Name = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the next reconcile; exit code 1 unless the object is Ready.")
    ] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="The longest time that --wait waits.")] = TIMEOUT,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Reconciles an object now. `source/NAME` reads and applies a Source, or the source of `up`, at once."""
    from tenantry.cli.arguments.finding import joined
    from tenantry.cli.arguments.options import duration
    from tenantry.cli.clients.connect import with_console

    seconds = duration(timeout).total_seconds()
    with_console(state, lambda console: _look(console, joined(object_, name), namespace, wait, seconds))


async def _look(console: Console, object_: str, namespace: str, wait: bool, seconds: float) -> None:
    from tenantry.cli.arguments.finding import followed_source

    if followed := await followed_source(console, object_, namespace):
        await _sync(console, followed)
    else:
        await _reconcile(console, object_, namespace, wait, seconds)


async def _reconcile(console: Console, object_: str, namespace: str, wait: bool, seconds: float) -> None:
    import asyncio
    from datetime import UTC, datetime

    from tenantry.cli.arguments.finding import find
    from tenantry.model.resource import RECONCILE_REQUESTED, format_time, ref_of

    _, document = await find(console, object_, namespace)
    if wait and not (await console.about()).url:
        raise Failure("nothing runs on this state folder, so the wait would never end; start `tenantry up`")
    if wait and _is_suspended(document):
        raise Failure(f"{name_of(document)} is suspended; `tenantry resume` it first")
    asked = format_time(datetime.now(UTC))
    await console.patch(ref_of(document), {"metadata": {"annotations": {RECONCILE_REQUESTED: asked}}})
    if not wait:
        write(f"{name_of(document)} will be reconciled")
        return
    try:
        async with asyncio.timeout(seconds):
            after = await _handled(console, document, asked)
    except TimeoutError:
        _, after = await find(console, object_, namespace)
        raise Failure(f"{name_of(document)} is not at rest after {seconds:.0f} s: {_told(after)}") from None
    if _ready(after).get("status") != "True":
        raise Failure(f"{name_of(document)} is not Ready: {_told(after)}")
    write(f"{name_of(document)} is Ready")


async def _sync(console: Console, name: str) -> None:
    report = await console.sync(name)
    if report.away:
        raise Failure(f"source/{name} cannot be read {report.away}")
    if report.problems:
        raise Failure("\n".join(report.problems))
    write(f"source/{name} is applied{f' at {report.revision[:12]}' if report.revision else ''}")
    if report.kept:
        from tenantry.model.wording import agreeing, counted

        kept = len(report.kept)
        say(f"{counted(kept, 'object')} left the source and {agreeing(kept, 'is')} kept: `tenantry check` shows why")


async def _handled(console: Console, document: Document, asked: str) -> Document:
    """The object once a pass has answered that request, and is at rest or needs somebody. Raises Failure when it is deleted
    meanwhile."""
    from tenantry.kinds.states import NEEDS_YOU, standing_of

    def rests(seen: Document) -> bool:
        status = seen.get("status") or {}
        types = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        handled = status.get("lastHandledReconcileAt") == asked
        return handled and ("Reconciling" not in types or standing_of(seen).state == NEEDS_YOU)

    return await _seen(console, document, rests)


async def _seen(console: Console, document: Document, holds: Callable[[Document], bool]) -> Document:
    """The object once that holds for it. Raises Failure when it is deleted meanwhile."""
    async for event in console.watch(document["kind"]):
        if event.document["metadata"]["uid"] != document["metadata"]["uid"]:
            continue
        if event.type == "DELETED":
            raise Failure(f"{name_of(document)} was deleted")
        if holds(event.document):
            return event.document
    raise Failure("the running platform ended")


def _ready(document: Document) -> dict[str, str]:
    conditions = document.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "Ready"), {})


def _told(document: Document) -> str:
    ready = _ready(document)
    return f"{ready.get('reason', 'it has no condition yet')}: {ready.get('message', '')}"


def _is_suspended(document: Document) -> bool:
    from tenantry.kinds.registry import TYPES

    return document["kind"] in TYPES and TYPES[document["kind"]].model_validate(document).suspended


def suspend(object_: Object, name: Name = "", namespace: Namespace = "", state: State = STATE) -> None:
    """Stops reconciling an object; its engine keeps running."""
    from tenantry.cli.arguments.finding import joined
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _suspend(console, joined(object_, name), namespace, True))


def resume(object_: Object, name: Name = "", namespace: Namespace = "", state: State = STATE) -> None:
    """Reconciles a suspended object again."""
    from tenantry.cli.arguments.finding import joined
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _suspend(console, joined(object_, name), namespace, False))


async def _suspend(console: Console, object_: str, namespace: str, value: bool) -> None:
    from tenantry.cli.arguments.finding import find
    from tenantry.kinds.registry import KINDS
    from tenantry.model.resource import SOURCE, SOURCE_FILE, SUSPEND, ref_of

    _, document = await find(console, object_, namespace)
    if document["kind"] not in KINDS:
        raise Failure(f"{name_of(document)} is never reconciled, so it cannot be suspended", BAD_INPUT)
    patch: Document = {"metadata": {"annotations": {SUSPEND: "true" if value else None}}}
    if "suspend" in document.get("spec", {}):
        patch = {"spec": {"suspend": value}} if value else {"spec": {"suspend": False}, **patch}
    await console.patch(ref_of(document), patch)
    write(f"{name_of(document)} {'suspended' if value else 'resumed'}")
    metadata = document["metadata"]
    if metadata.get("labels", {}).get(SOURCE):
        place = metadata.get("annotations", {}).get(SOURCE_FILE, "its file")
        say(f"it is declared at {place}: the next sync of that source undoes this; to keep it, edit the file")


def wake(
    environment: Annotated[
        str,
        typer.Argument(metavar="ENV", help="An environment, NAME or NAMESPACE/NAME.", autocompletion=completing.environments),
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the engine runs.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="The longest time that --wait waits.")] = TIMEOUT,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Wakes the engine of an environment that sleeps."""
    from tenantry.cli.arguments.options import duration
    from tenantry.cli.clients.connect import with_console

    seconds = duration(timeout).total_seconds()
    with_console(state, lambda console: _wake(console, environment, namespace, wait, seconds))


async def _wake(console: Console, environment: str, namespace: str, wait: bool, seconds: float) -> None:
    import asyncio
    from datetime import UTC, datetime

    from tenantry.cli.arguments.finding import find_environment
    from tenantry.model.resource import WAKE_REQUESTED, format_time, ref_of

    document = await find_environment(console, environment, namespace)
    if _engine_status(document) != "SLEEPING":
        write(f"{name_of(document)} does not sleep")
        return
    asked = format_time(datetime.now(UTC))
    await console.patch(ref_of(document), {"metadata": {"annotations": {WAKE_REQUESTED: asked}}})
    if not wait:
        write(f"{name_of(document)} is being woken")
        return
    try:
        async with asyncio.timeout(seconds):
            await _seen(console, document, lambda seen: (seen.get("status") or {}).get("lastHandledWakeAt") == asked)
    except TimeoutError:
        raise Failure(f"{name_of(document)} was not awake within {seconds:.0f} s") from None
    write(f"{name_of(document)} is awake")


def _engine_status(document: Document) -> str:
    engine: dict[str, str] = (document.get("status") or {}).get("engine") or {}
    return engine.get("status", "")
