"""`tenantry doctor`: the findings of `check` with the next step for each, and a bundle of them for a report."""

from __future__ import annotations

import os
import platform
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.commands.platform.check import findings, is_there
from tenantry.cli.output.check_results import CheckResult
from tenantry.cli.output.documents import to_json, write
from tenantry.cli.output.failing import NOT_DONE, Failure

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

MOST_LOGS = 50
"""Operations in a bundle: those that failed or have not ended before all others, the newest first."""
METADATA = ("name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "finalizers")
"""All that a bundle holds of an object's metadata: annotations may hold a declaration as it was applied."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor", epilog=examples("tenantry doctor", "tenantry doctor --bundle report.zip"))(doctor)


def doctor(
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            help="Writes a zip file for a report: versions, states, logs; no secrets.",
            callback=path_options.a_new_file,
        ),
    ] = None,
    state: Annotated[Path | None, typer.Option("--state", help="The state folder.", show_default=".tenantry")] = None,
) -> None:
    """Checks what `check` checks, and suggests the next step for each finding. Exit code 1 when something is wrong."""
    found = []
    for each in findings(state):
        found.append(each)
        write(str(each))
        if each.wrong and each.fix:
            write(f"      next: {each.fix}")
    if bundle is not None:
        _write(bundle, found, state)
        write(f"wrote {bundle}; look through it before you share it")
    raise typer.Exit(NOT_DONE if any(each.wrong for each in found) else 0)


def _write(bundle: Path, found: Sequence[CheckResult], state: Path | None) -> None:
    """Readable by its owner alone. Raises Failure where the file exists or cannot be written."""
    members = {"findings.txt": "\n".join(map(str, found)) + "\n", "process.json": _process(), **_of_platform(state)}
    try:
        descriptor = os.open(bundle, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Failure(f"{bundle}: {error.strerror}; name a new file") from None
    with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def _process() -> str:
    """Return what is known of this process. Settings show their names alone: their values may be credentials."""
    from tenantry.settings import PREFIX

    return to_json(
        {
            "python": sys.version,
            "machine": platform.platform(),
            "settings": sorted(name for name in os.environ if name.startswith(PREFIX)),
        }
    )


def _of_platform(state: Path | None) -> dict[str, str]:
    """Return the states and logs of the platform that is there, or why they are lacking."""
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.clients.connect import with_console
    from tenantry.cli.output.failing import sentence_of

    try:
        folder = load(**({"state": state} if state else {})).state
        return with_console(folder, _collected) if is_there(folder) else {}
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise
        return {"unreadable.txt": f"{told[0]}\n"}


async def _collected(console: Console) -> dict[str, str]:
    from tenantry.kinds.registry import KINDS

    about = await console.about()
    members = {"platform.json": to_json({"release": about.release, "source": about.source, "faults": about.faults})}
    for kind in KINDS:
        members[f"objects/{kind}.json"] = to_json([_shown(each) for each in await console.list(kind)])
    for operation in _of_interest(await console.list("Operation")):
        name = operation["metadata"]["name"]
        members[f"operations/{name}.json"] = to_json(_shown(operation) | {"spec": operation["spec"]})
        members[f"operations/{name}.log"] = await _log(console, name)
    return members


async def _log(console: Console, operation: str) -> str:
    """The log, or why there is none: on a cluster the api holds it, and may be what does not work."""
    from tenantry.cli.output.failing import sentence_of

    try:
        return await console.log(operation)
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise
        return f"unreadable: {told[0]}\n"


def _of_interest(operations: Sequence[Document]) -> Sequence[Document]:
    def rank(operation: Document) -> tuple[bool, str]:
        result = operation.get("status", {}).get("result", "PENDING")
        return result in ("PENDING", "FAILURE"), str(operation["metadata"].get("creationTimestamp", ""))

    return sorted(operations, key=rank, reverse=True)[:MOST_LOGS]


def _shown(document: Document) -> dict[str, Any]:
    metadata = document["metadata"]
    kept = {name: metadata[name] for name in METADATA if name in metadata}
    return {"kind": document["kind"], "metadata": kept, "status": document.get("status", {})}
