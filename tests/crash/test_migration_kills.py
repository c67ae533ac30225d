"""A process that installs is killed at every statement, before and after it: tables, rows and version are the old or the new.

A failure names its point; `TENANTRY_KILL_POINT=<point> pytest tests/crash/test_migration_kills.py -m ''` runs it alone.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from unittest.mock import patch

import pytest
import sqlalchemy as sa

from tenantry.engine.migration import indexes
from tenantry.engine.service import Engine
from tests.campaigns.tried import Tried
from tests.crash.mortal_installs import CHANGES, EngineState, as_installed, doomed, install, prepared

REPLAY = os.environ.get("TENANTRY_KILL_POINT", "")
SAMPLE = 17
"""The normal tier kills at every seventeenth event of one upgrade only."""


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_the_old_or_the_new_and_nothing_between(
    database: str, change: str, request: pytest.FixtureRequest, tmp_path: Path, tried: Tried
) -> None:
    address = request.getfixturevalue("server") if database == "postgresql" else None
    await _campaign(tmp_path, address, change, every=1, tried=tried)


@pytest.mark.slow
async def test_some_places_of_an_upgrade(tmp_path: Path, tried: Tried) -> None:
    await _campaign(tmp_path, None, "an upgrade", every=SAMPLE, tried=tried)
    assert tried.count >= 5


async def _campaign(folder: Path, address: str | None, change: str, *, every: int, tried: Tried) -> None:
    """Kill at each place until the install outlives them."""
    before, after = CHANGES[change]
    template = await prepared(folder, address, before)
    old = template.portrait()
    new = await install(template.copy(folder / "reference"), after)
    assert old != new
    ends = []
    for at in range(1, 10_000, every):
        point = f"{'postgresql' if address else 'sqlite'}:{change}:{at}"
        if REPLAY and point != REPLAY:
            continue
        state = template.copy(folder / "state")
        if await asyncio.to_thread(doomed, state, after, at):
            break
        ends.append(await _look(state, after, old, new, point))
        tried()
        state.remove()
    assert REPLAY or ends[0] == "old"
    assert REPLAY or every > 1 or ends[-1] == "new"


async def _look(state: EngineState, version: str, old: list[str], new: list[str], point: str) -> str:
    found = as_installed(await asyncio.to_thread(state.portrait))
    between = sorted(set(found) ^ set(new))
    assert found in (old, new), f"something between: TENANTRY_KILL_POINT='{point}': {between}"
    assert await install(state, version) == new, f"does not converge: TENANTRY_KILL_POINT='{point}'"
    return "old" if found == old else "new"


@pytest.mark.slow
async def test_an_upgrade_builds_an_index_ahead_on_postgresql(server: str, tmp_path: Path) -> None:
    """Else the campaign would not kill there."""
    state = await prepared(tmp_path, server, "1")
    engine = await Engine.open(state.data, database_url=state.url)
    names: list[str] = []
    real = indexes.build

    def build(connection: sa.Connection, wanted: tuple[indexes.Ahead, ...], seconds: float) -> None:
        names.extend(one.table for one in wanted)
        real(connection, wanted, seconds)

    with patch.multiple(indexes, build=build, LEAST_BYTES=0):
        await engine.install("crm", "2", allow_drops=True)
    await engine.close()
    assert names == ["crm__notes"]
