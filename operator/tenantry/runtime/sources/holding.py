"""Asks engines which of their apps hold rows, before anything is pruned: the one answer for plan and sync alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import endpoint_of, sleeping_since
from tenantry.model.resource import Document, Ref, ref_of
from tenantry.model.verdicts import Halt
from tenantry.ports import EngineViews
from tenantry.runtime.sources.pruning import EngineData

AT_ONCE = 16
Holding = Callable[[Sequence[Document]], Awaitable[Mapping[Ref, EngineData]]]
"""Return the data in the engines of these Environments. An engine that cannot be reached counts as one that may hold data."""


def holding(engines: EngineViews) -> Holding:
    """Ask each engine itself: an App that is gone from the store leaves its tables behind."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def asked(document: Document) -> EngineData:
        async with slots:
            return await _data_of(Environment.model_validate(document), engines)

    async def of(environments: Sequence[Document]) -> Mapping[Ref, EngineData]:
        found = await asyncio.gather(*map(asked, environments))
        return dict(zip(map(ref_of, environments), found, strict=True))

    return of


async def _data_of(environment: Environment, engines: EngineViews) -> EngineData:
    """Of an environment whose engine never answered there is nothing yet, and nothing is left to decide of one that goes."""
    if environment.deleting or environment.status.phase in (None, "PENDING"):
        return EngineData()
    endpoint = endpoint_of(environment)
    if endpoint is None:
        state = "sleeps" if sleeping_since(environment) else "does not run"
        return EngineData(unknown=f"the engine of environment {environment.metadata.name} {state}")
    try:
        return EngineData(await engines.at(endpoint).apps_with_rows())
    except Halt as halt:
        return EngineData(unknown=f"the engine of environment {environment.metadata.name} cannot be asked: {halt}")
