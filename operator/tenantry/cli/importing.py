"""`tenantry import`: what runs, as YAML for a Git repository."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.exporting import Exported, add_tenant, checked, put, with_bytes
from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.options import STATE, State

if TYPE_CHECKING:
    from tenantry.hosts.console import Console
    from tenantry.model.resource import Document


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("import")(import_)


def import_(
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.")],
    cluster: Annotated[bool, typer.Option("--cluster", help="All of a cluster, or of a state folder.")] = False,
    state: State = STATE,
) -> None:
    """Writes what runs as YAML for a Git repository: regions, shared packages, users, and a folder for each tenant."""
    from tenantry.cli.connect import with_console

    if not cluster:
        raise Failure("say what is to be imported: --cluster", BAD_INPUT)
    folder = checked(output)
    with_console(state, lambda console: _all(console, folder))


async def _all(console: Console, folder: Path | None) -> None:
    from tenantry.kinds.admission import Admission

    admission = await asyncio.to_thread(Admission)

    def admit(document: Document) -> Document:
        return admission.admit(document, None)

    exported = Exported()
    exported.add("", await console.list("Region"), admit)
    exported.add("", [each for each in await console.list("User") if _of_the_platform(each)], admit)
    shared = [each for each in await console.list("Package") if each["spec"].get("shared")]
    exported.add("", [await with_bytes(console, exported, each, "", "") for each in shared], admit)
    for tenant in await console.list("Tenant"):
        name = tenant["metadata"]["name"]
        await add_tenant(console, exported, tenant, f"tenants/{name}/", admit, with_packages=True)
    await put(console, exported, folder)


def _of_the_platform(user: Document) -> bool:
    """A SUPERUSER, but for the one that every platform makes for itself."""
    return not user["spec"].get("tenant") and user["metadata"]["name"] != "admin"
