"""Saved plans, carried out by a platform of this process: what was looked at is what is done, or nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tenantry.adapters.sources.git.url import is_git_url, source_of
from tenantry.bootstrap.embedded import Platform
from tenantry.bootstrap.sources import Readable
from tenantry.hosts.console.approving import check_holds, moved
from tenantry.hosts.console.protocol import Approved
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Forbidden
from tenantry.runtime.operations.attribution import bound_tenant
from tenantry.runtime.planning.planned import Planned, declared_digest, found_as
from tenantry.runtime.sources.pruning import Kept


async def apply_plan(platform: Platform, approved: Approved) -> tuple[Kept, ...]:
    """See Console.apply_plan. A platform that does not run is started for it, and has come to rest at the end."""
    source = source_of(approved.source)
    followed = platform.source
    if followed is not None and (_whole(followed.location), followed.syncer.source) != (_whole(approved.source), approved.name):
        raise Forbidden(f"the source {followed.syncer.source} is followed here, from {followed.location}: change it there")
    planned = await platform.plan_source(source, approved.name)
    await asyncio.to_thread(_check_holds, approved, planned)
    opened = platform.open_source(source, approved.name)
    tree = await opened.read()
    if await asyncio.to_thread(declared_digest, tree) != planned.declared:
        raise moved("the source has changed since the plan")
    for ref, stamp in planned.stamps:
        tenant = bound_tenant(ref.namespace, platform.state.cache)
        if found_as(platform.state.cache.document(ref), tenant.metadata.uid if tenant else "") != stamp:
            raise moved(f"{ref} has changed since the plan")
    if followed is not None:
        await followed.take(tree)
    else:
        followed = platform.follow(_fixed(opened, tree), approved.name)
        await platform.start()
    await platform.converged()
    return followed.last.kept


def _check_holds(approved: Approved, planned: Planned) -> None:
    """Raises Forbidden; see check_holds. Blocks."""
    check_holds(approved, planned.digest, tuple(map(str, planned.steps)), planned.problems)


def _whole(location: str) -> str:
    return location if is_git_url(location) else str(Path(location).resolve())


def _fixed(opened: Readable, tree: Tree) -> Readable:
    """A source that stays as it was read."""

    async def read() -> Tree:
        return tree

    async def changes() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    return Readable(opened.location, read, changes, opened.applied)
