"""`tenantry import`: what runs, here or in an engine of others, as YAML for a Git repository."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import State
from tenantry.cli.commands.platform.secrets import value_of_input
from tenantry.cli.commands.transfer.exporting import Exported, add_tenant, put, with_bytes
from tenantry.cli.output.failing import BAD_INPUT, Failure

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "import",
        epilog=examples(
            "tenantry import --cluster -o platform/",
            "tenantry import --engine https://crm.example.com --as tenant-acme/dev --region eu -o dev/ < password",
        ),
    )(import_)


def import_(
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder.", callback=path_options.a_new_folder)],
    cluster: Annotated[bool, typer.Option("--cluster", help="All of a cluster, or of a state folder.")] = False,
    engine: Annotated[str, typer.Option("--engine", metavar="URL", help="An engine; its admin's password comes in.")] = "",
    as_: Annotated[str, typer.Option("--as", metavar="NAMESPACE/NAME", help="The environment that it is to be.")] = "",
    region: Annotated[str, typer.Option("--region", help="The region of that environment.")] = "",
    state: State = STATE,
) -> None:
    """Writes a running platform, or an external engine, as YAML for a Git repository.

    --cluster: regions, shared packages, users, Sources, and a folder for each tenant. --engine: an environment that adopts it.
    """
    from tenantry.cli.clients.connect import with_console

    if cluster == bool(engine):
        raise Failure("say what is to be imported: --cluster, or --engine URL", BAD_INPUT)
    folder = output.absolute()
    if engine:
        _engine(engine, as_, region, folder)
    else:
        with_console(state, lambda console: _all(console, folder))


def _engine(url: str, as_: str, region: str, folder: Path | None) -> None:
    from tenantry.cli.commands.transfer.adopting import AdoptionTarget, import_engine

    namespace, slash, name = as_.partition("/")
    if not (namespace and slash and name) or not region:
        raise Failure("an engine needs --as NAMESPACE/NAME and --region REGION", BAD_INPUT)
    if not url.startswith(("http://", "https://")):
        raise Failure(f"{url!r} is not the URL of an engine; write https://HOST", BAD_INPUT)
    password = value_of_input(f"password of admin at {url}: ")
    asyncio.run(import_engine(AdoptionTarget(url.rstrip("/"), namespace, name, region), password, folder))


async def _all(console: Console, folder: Path | None) -> None:
    from tenantry.kinds.admission import Admission

    admission = await asyncio.to_thread(Admission)

    def admit(document: Document) -> Document:
        return admission.admit(document)

    exported = Exported()
    exported.add("", await console.list("Region"), admit)
    exported.add("", [each for each in await console.list("User") if _of_the_platform(each)], admit)
    shared = [each for each in await console.list("Package") if each["spec"].get("shared")]
    exported.add("", [await with_bytes(console, exported, each, "", "") for each in shared], admit)
    exported.add("", [each for each in await console.list("Source") if _in_system(each)], admit)
    for tenant in await console.list("Tenant"):
        name = tenant["metadata"]["name"]
        await add_tenant(console, exported, tenant, f"tenants/{name}/", admit, with_packages=True)
    await put(console, exported, folder)


def _in_system(document: Document) -> bool:
    from tenantry.model.resource import SYSTEM_NAMESPACE

    return str(document["metadata"]["namespace"]) == SYSTEM_NAMESPACE


def _of_the_platform(user: Document) -> bool:
    """A SUPERUSER, but for the one that every platform makes for itself."""
    return not user["spec"].get("tenant") and user["metadata"]["name"] != "admin"
