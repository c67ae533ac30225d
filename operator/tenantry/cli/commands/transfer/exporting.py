"""`tenantry export`: a tenant as YAML in the order in which it is applied, its packages beside it, its secrets as references."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from tenantry.cli.arguments import completing, path_options
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import State
from tenantry.cli.output.documents import to_yaml, write
from tenantry.cli.output.failing import say

if TYPE_CHECKING:
    from tenantry.cli.commands.transfer.declaring import Admit
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

PACKAGES = "packages"


@dataclass
class Exported:
    """Declarations by the name of their file, and package files to copy: (tenant, sha256, where)."""

    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    packages: list[tuple[str, str, str]] = field(default_factory=list)
    secrets: set[tuple[str, str]] = field(default_factory=set)

    def add(self, folder: str, documents: Iterable[Document], admit: Admit) -> None:
        """Adds declarations below a folder, `""` or ending in `/`."""
        from tenantry.cli.commands.transfer.declaring import by_name, declaration, secrets_named
        from tenantry.kinds.registry import TYPES

        for each in by_name(documents):
            self.files.setdefault(f"{folder}{TYPES[each['kind']].EXPORTED_TO}.yaml", []).append(declaration(each, admit))
            self.secrets.update(secrets_named(each))


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("export", epilog=examples("tenantry export acme -o acme/"))(export)


def export(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.", autocompletion=completing.tenants)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A new folder. Default: standard output.", callback=path_options.a_new_folder),
    ] = None,
    state: State = STATE,
) -> None:
    """Writes a whole tenant as YAML, without data and with its secrets as references."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _export(console, tenant, output.absolute() if output else None))


async def _export(console: Console, name: str, output: Path | None) -> None:
    from tenantry.cli.arguments.finding import choose
    from tenantry.cli.arguments.kinds import find_kind
    from tenantry.kinds.admission import Admission

    tenant = choose(await console.list("Tenant"), find_kind("tenant"), "", name)
    admission = await asyncio.to_thread(Admission)
    exported = Exported()
    await add_tenant(console, exported, tenant, "", admission.admit, output is not None)
    await put(console, exported, output)


async def add_tenant(
    console: Console, exported: Exported, tenant: Document, folder: str, admit: Admit, with_packages: bool
) -> None:
    """Adds a tenant and all that is its own, below a folder."""
    from tenantry.kinds.registry import OF_TENANTS
    from tenantry.kinds.tenancy import namespace_of
    from tenantry.model.resource import MADE_FOR

    name, namespace = tenant["metadata"]["name"], namespace_of(tenant)
    namespaces = [each for each in await console.list("Namespace") if each["metadata"]["name"] == namespace]
    adopted = [each for each in namespaces if MADE_FOR not in (each["metadata"].get("annotations") or {})]
    exported.add(folder, [*adopted, tenant], admit)
    exported.add(folder, [each for each in await console.list("User") if each["spec"].get("tenant") == name], admit)
    for kind in OF_TENANTS:
        own = [each for each in await console.list(kind) if each["metadata"]["namespace"] == namespace]
        if kind == "Package" and with_packages:
            own = [await with_bytes(console, exported, each, name, folder) for each in own]
        exported.add(folder, own, admit)


class Bytes(Protocol):
    """The source of packages' bytes."""

    async def copy_package(self, tenant: str, sha256: str, path: str) -> None:
        """Writes them to that path."""


async def put(packages: Bytes, exported: Exported, output: Path | None) -> None:
    """Writes what is exported: all of it, or nothing. Raises Failure."""
    if output is None:
        write(to_yaml(each for documents in exported.files.values() for each in documents))
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as scratch:
            made = Path(scratch) / output.name
            await _write(packages, exported, made)
            await asyncio.to_thread(os.replace, made, output)
        for name, documents in exported.files.items():
            write(f"{output / name}  {len(documents)}")
    for namespace, name in sorted(exported.secrets):
        say(f"needs the Secret {namespace}/{name}, which is not exported")


async def with_bytes(console: Console, exported: Exported, package: Document, tenant: str, folder: str) -> Document:
    """The Package with a path to its bytes beside it, where this platform has them at hand."""
    spec: Mapping[str, Any] = package["spec"]
    sha256 = spec.get("sha256")
    if not sha256 or await console.find_package(tenant, sha256) is None:
        source = {key: value for key, value in (spec.get("source") or {}).items() if key != "path"}
        say(f"Package {package['metadata']['name']}: its bytes are not at hand here; push them with `tenantry package push`")
        return {**package, "spec": _with(spec, source)}
    path = f"{PACKAGES}/{spec['app']}-{spec['version']}.tapp"
    exported.packages.append((tenant, sha256, f"{folder}{path}"))
    return {**package, "spec": _with(spec, {"path": path})}


def _with(spec: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in spec.items() if key != "source"}
    return {**rest, "source": dict(source)} if source else rest


async def _write(packages: Bytes, exported: Exported, folder: Path) -> None:
    await asyncio.to_thread(_write_files, exported.files, folder)
    for tenant, sha256, path in exported.packages:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        await packages.copy_package(tenant, sha256, str(folder / path))


def _write_files(files: Mapping[str, Sequence[Document]], folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, documents in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{to_yaml(documents)}\n", encoding="utf-8")
