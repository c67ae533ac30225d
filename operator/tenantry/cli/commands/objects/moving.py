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
"""The word for a pod of its own, unless a pool has that name."""
Env = Annotated[
    str,
    typer.Argument(metavar="ENV", help="An environment, NAME or NAMESPACE/NAME.", autocompletion=completing.environments),
]
To = Annotated[str, typer.Option("--to", help="A pool of the environment's region, or `dedicated`.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("move", epilog=examples("tenantry move tenant-acme/dev --to small"))(move)


def move(environment: Env, to: To, namespace: Namespace = "", state: State = STATE) -> None:
    """Declares the place of an environment's engine: a pool, or a pod of its own (`dedicated`). The engine moves there, with its
    data, address and passwords."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _move(console, environment, namespace, to))


async def _move(console: Console, environment: str, namespace: str, to: str) -> None:
    from tenantry.cli.arguments.finding import find_environment
    from tenantry.model.resource import ref_of

    document = await find_environment(console, environment, namespace)
    regions = {each["metadata"]["name"]: each for each in await console.list("Region")}
    pool = check(document, regions, to)
    await console.patch(ref_of(document), {"spec": {"engine": declared_in(pool)}})
    place = f"pool {pool}" if pool else "a pod of its own"
    write(f"{name_of(document)} moves to {place}; `tenantry describe {name_of(document)}` shows how far it is")


def declared_in(pool: str) -> dict[str, Any]:
    """Return the fields of `spec.engine` that declare the place. pool: `""` for a pod of its own."""
    return {"placement": "Pooled", "pool": pool} if pool else {"placement": "Dedicated", "pool": None}


def check(environment: Document, regions: Mapping[str, Document], to: str) -> str:
    """Refuse a move that would not begin. Return the pool, `""` for a pod of its own. Raises Failure."""
    from tenantry.model.resource import RESTORING, declared_at, source_of

    title, spec, metadata = name_of(environment), environment["spec"], environment["metadata"]
    region = regions.get(spec["region"]) or {}
    if (spec.get("engine") or {}).get("external"):
        raise Failure(f"{title} has an external engine, which Tenantry does not move", NOT_DONE)
    if spec.get("suspend") or metadata.get("deletionTimestamp"):
        raise Failure(f"{title} is suspended or is being deleted, so its engine does not move", NOT_DONE)
    if RESTORING in (metadata.get("annotations") or {}):
        raise Failure(f"{title} is being restored; move it when it is Ready", NOT_DONE)
    pool = _pool(environment, region, to)
    _check_place(environment, region, pool)
    if source_of(environment):
        fields = f"Pooled, spec.engine.pool: {pool}" if pool else "Dedicated, and no spec.engine.pool"
        told = f"edit that file: spec.engine.placement: {fields}"
        raise Failure(f"{title} is declared at {declared_at(environment)}: {told}", NOT_DONE)
    return pool


def _pool(environment: Document, region: Document, to: str) -> str:
    from tenantry.model.wording import counted

    title = name_of(environment)
    held: dict[str, dict[str, Any]] = {each["name"]: each for each in (region.get("status") or {}).get("pools") or ()}
    declared = ((region.get("spec") or {}).get("engine") or {}).get("pools") or ()
    room = {each["name"]: each.get("enginesPerReplica") for each in declared}
    names, name = sorted({*held, *room}), environment["spec"]["region"]
    engine = (environment.get("status") or {}).get("engine") or {}
    if to == DEDICATED and to not in names:
        if not engine.get("pool"):
            raise Failure(f"the engine of {title} is in no pool", NOT_DONE)
        return ""
    if to not in names:
        told = f"choose one of {', '.join(names)}" if names else "it has none: all its engines are in one place"
        raise Failure(f"region {name} has no pool {to}: {told}", BAD_INPUT)
    if to in held and engine.get("pool") == held[to]["id"]:
        raise Failure(f"the engine of {title} is in pool {to} already", NOT_DONE)
    if room.get(to) and held.get(to, {}).get("engines", 0) >= room[to]:
        raise Failure(f"pool {to} of region {name} is full: it holds {counted(held[to]['engines'], 'engine')}", NOT_DONE)
    return to


def _check_place(environment: Document, region: Document, pool: str) -> None:
    """Refuse what the operator would refuse, such as a region that places no engine in a pool."""
    from tenantry.kinds.environment.observe import region_placement
    from tenantry.kinds.environment.placement import placed
    from tenantry.kinds.environment.spec import Environment
    from tenantry.kinds.region.pools import with_default_pool
    from tenantry.kinds.region.spec import Region

    spec = environment["spec"]
    edited = {**environment, "spec": {**spec, "engine": {**(spec.get("engine") or {}), **declared_in(pool)}}}
    # Of a default pool only the status shows that the platform has given it.
    offers = region_placement(with_default_pool(Region.model_validate(region), "new"), offered=True)
    refusal = placed(Environment.model_validate(edited), None, offers).refusal
    if refusal is not None:
        raise Failure(refusal.message, NOT_DONE)
