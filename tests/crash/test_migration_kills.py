"""A process that installs is killed at every statement, before and after it: tables, rows and version are the old or the new.

A failure names its point; `TENANTRY_KILL_POINT=<point> pytest tests/crash/test_migration_kills.py -m ''` runs it alone.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.crash.mortal_installs import CHANGES, Site, doomed, install, prepared
from tests.scenario.postgres import server

__all__ = ["server"]
REPLAY = os.environ.get("TENANTRY_KILL_POINT", "")
SAMPLE = 17
"""The normal tier kills at every seventeenth event of one upgrade only."""
LEAST = {"sqlite": 150, "postgresql": 150}
_killed: dict[str, int] = {"sqlite": 0, "postgresql": 0}


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_the_old_or_the_new_and_nothing_between(
    database: str, change: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = request.getfixturevalue("server") if database == "postgresql" else None
    _killed[database] += await _campaign(tmp_path, address, change, every=1)


async def test_some_places_of_an_upgrade(tmp_path: Path) -> None:
    assert await _campaign(tmp_path, None, "an upgrade", every=SAMPLE) >= 5


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_there_were_enough_of_them(database: str) -> None:
    if REPLAY or not _killed[database]:
        pytest.skip("only some of them ran here")
    assert _killed[database] >= LEAST[database]


async def _campaign(folder: Path, address: str | None, change: str, every: int) -> int:
    """Kills at each place until the install outlives them. How many there were."""
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
        site = template.copy(folder / "site")
        if await asyncio.to_thread(doomed, site, after, at):
            break
        ends.append(await _look(site, after, old, new, point))
        site.remove()
    assert REPLAY or ends[0] == "old"
    assert REPLAY or every > 1 or ends[-1] == "new"
    return len(ends)


async def _look(site: Site, version: str, old: list[str], new: list[str], point: str) -> str:
    found = await asyncio.to_thread(site.portrait)
    between = sorted(set(found) ^ set(new))
    assert found in (old, new), f"something between: TENANTRY_KILL_POINT='{point}': {between}"
    assert await install(site, version) == new, f"does not converge: TENANTRY_KILL_POINT='{point}'"
    return "old" if found == old else "new"
