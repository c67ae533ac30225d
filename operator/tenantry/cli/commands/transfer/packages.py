"""`tenantry package`: build, inspect, push."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Output, Server, State, Token
from tenantry.cli.arguments.texts import text_of_file
from tenantry.cli.output.documents import OutputFormat, to_json, to_yaml, write
from tenantry.cli.output.failing import BAD_INPUT, Failure

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.facts import PackageFacts
    from tenantry.model.resource import Document

File = Annotated[Path, typer.Argument(metavar="FILE", help="A package (.tapp).", callback=path_options.a_file)]


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(
        name="package",
        help="Builds, shows and stores app packages.",
        no_args_is_help=True,
        epilog=examples("tenantry package build apps/crm"),
    )
    group.command("build", epilog=examples("tenantry package build apps/crm -o crm.tapp"))(build)
    group.command("inspect", epilog=examples("tenantry package inspect crm.tapp"))(inspect)
    group.command("push", epilog=examples("tenantry package push crm.tapp --tenant acme"))(push)
    app.add_typer(group)


def build(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that holds app.yaml.", callback=path_options.a_folder)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write. Default: <app>-<version>.tapp.",
            callback=path_options.a_file_to_write,
        ),
    ] = None,
) -> None:
    """Builds a package; the same folder gives the same bytes."""
    from tenantry.model.verdicts import Invalid
    from tenantry.packages.build import build as build_package
    from tenantry.packages.parsing import parse_manifest

    if not (folder / "app.yaml").is_file():
        raise Failure(f"{folder} holds no app.yaml", BAD_INPUT)
    try:
        if out is None:
            manifest = parse_manifest((folder / "app.yaml").read_bytes())
            out = Path(f"{manifest.id}-{manifest.version}.tapp")
        facts = build_package(folder, out)
    except Invalid as error:
        raise Failure("\n".join(f"{folder}/{problem}" for problem in error.problems), BAD_INPUT) from error
    write(f"{out}  {facts.sha256}")


def inspect(file: File, output: Output = OutputFormat.TABLE) -> None:
    """Shows what a package says of itself, after checking it."""
    facts = _facts(file)
    body = asdict(facts) | {"roles": list(facts.roles)}
    match output:
        case OutputFormat.JSON:
            write(to_json(body))
        case OutputFormat.NAME:
            write(f"{facts.app}/{facts.version}")
        case _:
            write(to_yaml([body]))


def push(
    file: File,
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant's name. Default: for all tenants.")] = "",
    signature: Annotated[
        Path | None,
        typer.Option("--signature", help="Its .minisig file, for the Packages of its bytes.", callback=path_options.a_file),
    ] = None,
    server: Server = "",
    token: Token = "",
    state: State = STATE,
) -> None:
    """Stores a package, so that Packages of that tenant with its sha256 find it."""
    facts, signed = _facts(file), _signature(signature)
    if server:
        from tenantry.cli.clients.pushing import push_over_rest

        push_over_rest(file, facts, tenant, server, token, signed)
    else:
        from tenantry.cli.clients.connect import with_console

        with_console(state, lambda console: _push(console, file, tenant, signed))
    write(f"{facts.app} {facts.version}  {facts.sha256}")


async def _push(console: Console, file: Path, tenant: str, signature: str) -> None:
    from tenantry.cli.arguments.finding import choose
    from tenantry.cli.arguments.kinds import find_kind
    from tenantry.model.documents import bound_namespace
    from tenantry.model.resource import SYSTEM_NAMESPACE, ref_of

    namespace = SYSTEM_NAMESPACE
    if tenant:
        found = choose(await console.list("Tenant"), find_kind("tenant"), "", tenant)
        namespace = bound_namespace(found)
    facts = await console.put_package(tenant, file)
    if not signature:
        return
    packages = [each for each in map(ref_of, await _of_bytes(console, facts)) if each.namespace == namespace]
    if not packages:
        where = f"tenant {tenant} declares no" if tenant else "there is no shared"
        raise Failure(f"{where} Package of these bytes, which are stored now: declare one, and push their signature again")
    for ref in packages:
        await console.patch(ref, {"spec": {"signature": signature}})


async def _of_bytes(console: Console, facts: PackageFacts) -> list[Document]:
    return [each for each in await console.list("Package") if each["spec"].get("sha256") == facts.sha256]


def _signature(file: Path | None) -> str:
    return text_of_file(file) if file is not None else ""


def _facts(file: Path) -> PackageFacts:
    from tenantry.model.verdicts import Invalid
    from tenantry.packages.check import inspect as inspect_package

    try:
        return inspect_package(file)
    except Invalid as error:
        raise Failure("\n".join(f"{file}: {problem}" for problem in error.problems), BAD_INPUT) from error
