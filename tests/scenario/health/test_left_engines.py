"""An engine that its Environment has left shows in the numbers from the next start on."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from tenantry.bootstrap.embedded import Platform
from tenantry.model.resource import Held, Ref
from tests.scenario.rest_world import BASE, declare, numbers, world_in
from tests.support.waiting import eventually

LEFT = "tenantry_engines_without_environment"


@pytest.mark.slow
async def test_an_engine_that_was_retained_is_counted(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        await world.tenant("acme")
        for name in ("kept", "stays"):
            await declare(world.platform, "Environment", name, {"region": "here", "deletionPolicy": "Retain"}, "tenant-acme")
        await world.platform.converged()
        kept, cache = Ref("Environment", "tenant-acme", "kept"), world.platform.state.cache
        held = cache.document(kept)
        assert held is not None
        await world.platform.state.writing.delete(Held(kept, held["metadata"]["uid"], ""))
        await eventually(lambda: cache.entry(kept) is None)
        assert f"{LEFT} 0.0" in numbers(world)
    platform = await Platform.open(tmp_path, BASE)
    await platform.start()
    try:
        await eventually(lambda: f"{LEFT} 1.0" in generate_latest(platform.numbers()).decode())
    finally:
        await platform.close()
