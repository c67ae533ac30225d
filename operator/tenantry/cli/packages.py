"""`tenantry package`: build, inspect, push."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.options import STATE, Output, Server, State, Token
from tenantry.cli.output import Format, to_json, to_yaml, write

if TYPE_CHECKING:
    import httpx

    from tenantry.hosts.console import Console
    from tenantry.model.facts import PackageFacts

TIMEOUT_S = 300.0
File = Annotated[Path, typer.Argument(metavar="FILE", help="A package (.tapp).")]


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(name="package", help="Builds, shows and stores app packages.", no_args_is_help=True)
    group.command("build")(build)
    group.command("inspect")(inspect)
    group.command("push")(push)
    app.add_typer(group)


def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that holds app.yaml.")],
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; <app>-<version>.tapp where absent.")
    ] = None,
) -> None:
    """Builds a package; the same folder gives the same bytes."""
    from tenantry.engine.packages.build import build as build_package
    from tenantry.engine.packages.manifest import parse_manifest

    if not (folder / "app.yaml").is_file():
        raise Failure(f"{folder} holds no app.yaml", BAD_INPUT)
    if out is None:
        manifest = parse_manifest((folder / "app.yaml").read_bytes())
        out = Path(f"{manifest.id}-{manifest.version}.tapp")
    facts = build_package(folder, out)
    write(f"{out}  {facts.sha256}")


def inspect(file: File, output: Output = Format.TABLE) -> None:
    """Shows what a package says of itself, after checking it."""
    facts = _facts(file)
    body = asdict(facts) | {"roles": list(facts.roles)}
    match output:
        case Format.JSON:
            write(to_json(body))
        case Format.NAME:
            write(f"{facts.app}/{facts.version}")
        case _:
            write(to_yaml([body]))


def push(
    file: File,
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant's name; for all tenants where absent.")] = "",
    server: Server = "",
    token: Token = "",
    state: State = STATE,
) -> None:
    """Stores a package, so that Packages of that tenant with its sha256 find it."""
    facts = _facts(file)
    if server:
        _push_over_rest(file, facts, tenant, server, token)
    else:
        from tenantry.cli.connect import with_console

        with_console(state, lambda console: _push(console, file, tenant))
    write(f"{facts.app} {facts.version}  {facts.sha256}")


async def _push(console: Console, file: Path, tenant: str) -> None:
    from tenantry.cli.finding import choose
    from tenantry.cli.kinds import find_kind

    if tenant:
        choose(await console.list("Tenant"), find_kind("tenant"), "", tenant)
    await console.put_package(tenant, file)


def _push_over_rest(file: Path, facts: PackageFacts, tenant: str, server: str, token: str) -> None:
    """PUT /api/v1/packages/{sha256}, as the caller of that token."""
    import httpx

    if not token:
        raise Failure("--server needs --token (or TENANTRY_TOKEN)", BAD_INPUT)
    base, headers = f"{server.rstrip('/')}/api/v1", {"Authorization": f"Bearer {token}"}
    try:
        with httpx.Client(headers=headers, timeout=TIMEOUT_S) as client, file.open("rb") as stream:
            query = {"tenantId": _tenant_id(client, base, tenant)} if tenant else {}
            response = client.put(f"{base}/packages/{facts.sha256}", content=stream, params=query)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise Failure(f"{server} cannot be reached: {error}") from error
    if response.is_error:
        raise Failure(f"{server} refused the package: {_error_of(response)}")


def _tenant_id(client: httpx.Client, base: str, tenant: str) -> str:
    """The id of the tenant of that name, slug or id, as the caller sees it. Raises Failure."""
    me = client.get(f"{base}/auth/me")
    if me.is_error:
        raise Failure(f"{base} refused the token: {_error_of(me)}")
    if me.json()["tenantId"]:
        return str(me.json()["tenantId"])  # of an ADMIN: there is no other
    listed = client.get(f"{base}/tenants")
    if listed.is_error:
        raise Failure(f"{base}/tenants cannot be listed: {_error_of(listed)}")
    for each in listed.json():
        if tenant in (each["slug"], each["id"], each["name"]):
            return str(each["id"])
    raise Failure(f"there is no tenant {tenant} at {base}")


def _error_of(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"


def _facts(file: Path) -> PackageFacts:
    from tenantry.engine.packages.check import inspect as inspect_package

    if not file.is_file():
        raise Failure(f"{file}: no such file", BAD_INPUT)
    return inspect_package(file)
