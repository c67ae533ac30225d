"""`tenantry edit`: an object's declaration in the editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Name, Namespace, Object, State
from tenantry.cli.arguments.texts import text_of_file
from tenantry.cli.output.documents import name_of, to_yaml, write
from tenantry.cli.output.failing import BAD_INPUT, NOT_DONE, Failure, say

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.facts import Applied
    from tenantry.model.resource import Document

EDITORS = ("KUBE_EDITOR", "VISUAL", "EDITOR")
"""Environment variables that name the editor, the first one first; `vi` without any."""
ADDED = ("status",)
ADDED_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp", "finalizers", "managedFields")
"""Fields that the platform writes: they are not shown."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("edit", epilog=examples("tenantry edit environment/dev", "EDITOR=nano tenantry edit tenant/acme"))(edit)


def edit(
    object_: Object,
    name: Name = "",
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Opens an object in $KUBE_EDITOR, $VISUAL or $EDITOR, and applies it when the editor ends."""
    from tenantry.cli.clients.connect import with_console

    document = with_console(state, lambda console: _found(console, object_, namespace, name))
    before = to_yaml([declared(document)]) + "\n"
    after, file = _edited(before, name_of(document))
    if after == before:
        file.unlink()
        write("nothing changed")
        return
    try:
        changed = _parsed(after, document, file)
        outcome = with_console(state, lambda console: _written(console, document, changed)).outcome
    except Exception:
        say(f"your changes are in {file}")
        raise
    file.unlink()
    write(f"{name_of(document)} {outcome}")


def declared(document: Document) -> dict[str, Any]:
    """The object without the fields that the platform writes."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in ADDED_METADATA}
    return {**{key: value for key, value in document.items() if key not in ADDED}, "metadata": metadata}


async def _found(console: Console, object_: str, namespace: str, name: str) -> Document:
    from tenantry.cli.arguments.finding import find
    from tenantry.model.resource import declared_at, source_of

    _, document = await find(console, object_, namespace, name)
    if source_of(document):
        raise Failure(f"{name_of(document)} is declared at {declared_at(document)}: edit that file", NOT_DONE)
    if document["kind"] == "Secret":
        raise Failure("the values of a Secret are not shown; `tenantry secret set` writes them", BAD_INPUT)
    return document


async def _written(console: Console, read: Document, changed: Document) -> Applied:
    """Apply the edited object. Labels and annotations that were taken out go, whoever added them.

    Raises Overtaken if the declaration has changed since it was read.
    """
    from tenantry.model.declared import PARTS
    from tenantry.model.resource import ref_of

    held, left = read["metadata"], changed["metadata"]
    gone = {part: dict.fromkeys((held.get(part) or {}).keys() - (left.get(part) or {}).keys()) for part in PARTS}
    versioned = {**left, "resourceVersion": held["resourceVersion"], "generation": held["generation"]}
    applied = await console.apply({**changed, "metadata": versioned})
    if not any(gone.values()):
        return applied
    await console.patch(ref_of(read), {"metadata": gone})
    return replace(applied, outcome="changed")


def _edited(text: str, title: str) -> tuple[str, Path]:
    """The text as the editor left it, and its file. Raises Failure when the editor fails."""
    editor = next(filter(None, map(os.environ.get, EDITORS)), "vi")
    handle, name = tempfile.mkstemp(prefix=f"tenantry-{title.replace('/', '-')}-", suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        ended = subprocess.run([*shlex.split(editor), name], check=False).returncode  # noqa: S603 - the person's own editor
    except OSError as error:
        raise Failure(f"{editor!r} cannot be started: {error.strerror}; set EDITOR to another") from None
    if ended:
        raise Failure(f"{editor!r} ended with {ended}; nothing was applied")
    return text_of_file(Path(name)), Path(name)


def _parsed(text: str, document: Document, file: Path) -> Document:
    """The one object of the file, the same as before. Raises Failure."""
    import yaml

    from tenantry.model.resource import ref_of

    try:
        changed = yaml.safe_load(text)
        same = ref_of(changed) == ref_of(document)
    except yaml.MarkedYAMLError as error:
        place = f"{file}:{error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise Failure(f"{place}{error.problem}", BAD_INPUT) from None
    except (yaml.YAMLError, LookupError, TypeError, AttributeError, RecursionError):
        raise Failure(f"{file} no longer contains an object", BAD_INPUT) from None
    if not same:
        raise Failure("kind, name and namespace stay as they are; `tenantry apply` makes another object", BAD_INPUT)
    return dict(changed)
