"""`tenantry move`: the declared place of an environment's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenantry.cli.arguments import completing
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Namespace, State
from tenantry.cli.output.documents import name_of, write
from tenantry.cli.output.failing import BAD_INPUT, NOT_DONE, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document

DEDICATED = "dedicated"
Env = Annotated[
    str,
    typer.Argument(metavar="ENV", help="An environment, NAME or NAMESPACE/NAME.", autocompletion=completing.environments),
]
To = Annotated[str, typer.Option("--to", help="A pool of the environment's region.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("move", epilog=examples("tenantry move tenant-acme/dev --to small"))(move)


def move(environment: Env, to: To, namespace: Namespace = "", state: State = STATE) -> None:
    """Declares the pool that holds an environment's engine. The engine moves there, with its data, address and passwords."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _move(console, environment, namespace, to))


async def _move(console: Console, environment: str, namespace: str, to: str) -> None:
    from tenantry.cli.arguments.finding import find
    from tenantry.model.resource import ref_of

    _, document = await find(console, f"environment/{environment.removeprefix('environment/')}", namespace)
    regions = {each["metadata"]["name"]: each for each in await console.list("Region")}
    check(document, regions, to)
    await console.patch(ref_of(document), {"spec": {"engine": in_pool(to)}})
    write(f"{name_of(document)} moves to pool {to}; `tenantry describe {name_of(document)}` shows how far it is")


def in_pool(to: str) -> dict[str, Any]:
    """Return the fields of `spec.engine` that declare the pool."""
    return {"placement": "Pooled", "pool": to}


def check(environment: Document, regions: Mapping[str, Document], to: str) -> None:
    """Refuse a move that would not begin. Raises Failure."""
    from tenantry.model.resource import RESTORING, declared_at, source_of

    title, spec, metadata = name_of(environment), environment["spec"], environment["metadata"]
    region = regions.get(spec["region"]) or {}
    if (spec.get("engine") or {}).get("external"):
        raise Failure(f"{title} has an external engine, which Tenantry does not move", NOT_DONE)
    if spec.get("suspend") or metadata.get("deletionTimestamp"):
        raise Failure(f"{title} is suspended or is being deleted, so its engine does not move", NOT_DONE)
    if RESTORING in (metadata.get("annotations") or {}):
        raise Failure(f"{title} is being restored; move it when it is Ready", NOT_DONE)
    _check_pool(title, environment, region, to)
    _check_place(environment, region, to)
    if source_of(environment):
        told = f"edit that file: spec.engine.placement: Pooled, spec.engine.pool: {to}"
        raise Failure(f"{title} is declared at {declared_at(environment)}: {told}", NOT_DONE)


def _check_pool(title: str, environment: Document, region: Document, to: str) -> None:
    held: dict[str, dict[str, Any]] = {each["name"]: each for each in (region.get("status") or {}).get("pools") or ()}
    declared = ((region.get("spec") or {}).get("engine") or {}).get("pools") or ()
    room = {each["name"]: each.get("enginesPerReplica") for each in declared}
    names, name = sorted({*held, *room}), environment["spec"]["region"]
    if to == DEDICATED and to not in names:
        ways = "declare `placement: Dedicated`, back it up to a file, delete it, and restore the file"
        raise Failure(f"an engine cannot move to a pod of its own yet: {ways}", NOT_DONE)
    if to not in names:
        told = f"choose one of {', '.join(names)}" if names else "it has none: all its engines are in one place"
        raise Failure(f"region {name} has no pool {to}: {told}", BAD_INPUT)
    engine = (environment.get("status") or {}).get("engine") or {}
    if to in held and engine.get("pool") == held[to]["id"]:
        raise Failure(f"the engine of {title} is in pool {to} already", NOT_DONE)
    if room.get(to) and held.get(to, {}).get("engines", 0) >= room[to]:
        raise Failure(f"pool {to} of region {name} is full: it holds {held[to]['engines']} engines", NOT_DONE)


def _check_place(environment: Document, region: Document, to: str) -> None:
    """Refuse what the operator would refuse, such as a region that places no engine in a pool."""
    from tenantry.kinds.environment.observe import region_placement
    from tenantry.kinds.environment.placement import placed
    from tenantry.kinds.environment.spec import Environment
    from tenantry.kinds.region.pools import with_default_pool
    from tenantry.kinds.region.spec import Region

    spec = environment["spec"]
    edited = {**environment, "spec": {**spec, "engine": {**(spec.get("engine") or {}), **in_pool(to)}}}
    # Of a default pool only the status shows that the platform has given it.
    offers = region_placement(with_default_pool(Region.model_validate(region), "new"), offered=True)
    refusal = placed(Environment.model_validate(edited), None, offers).refusal
    if refusal is not None:
        raise Failure(refusal.message, NOT_DONE)
