"""Every write and every effect of a story is a place to die at, before and after it commits; so is every passing fault.

Whatever happens, the next start comes to the same end as if nothing had: nothing twice, nothing lost, nothing left behind.
A failure names its point; `TENANTRY_CRASH_POINT=<point> pytest tests/crash -m ''` runs it alone.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.crash import story
from tests.crash.campaign import Doom, copy_of, run
from tests.support.store_faults import Fault
from tests.support.turns import turn

REPLAY = os.environ.get("TENANTRY_CRASH_POINT", "")
STEP = 1 if REPLAY else at_full(1, otherwise=len(Fault))
"""In the slow tier one of the faults strikes at each place, for another commit another one; in the campaign all do."""
TURN = turn("every write", STEP)


@dataclass(frozen=True)
class Chapter:
    """One chapter without faults: the state before it, its end, and how many places it has."""

    before: Path
    source: Path
    end: dict[str, Any]
    places: int
    approve: bool


@pytest.fixture(scope="session")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Chapter]:
    root = tmp_path_factory.mktemp("reference")
    return asyncio.run(_tell(root))


async def _tell(root: Path) -> dict[str, Chapter]:
    state = root / "state"
    state.mkdir()
    told = {}
    for name in story.CHAPTERS:
        before = copy_of(state, root / f"before-{name}")
        source = story.write(root / name, name)
        doom, approve = Doom(), name == "delete"
        end = await run(state, source, doom, approve=approve)
        assert end is not None
        told[name] = Chapter(before, source, end, doom.writes, approve)
    return told


async def _check(chapter: Chapter, name: str, at: int, fault: Fault, state: Path) -> None:
    point = f"{name}:{at}:{fault.name}"
    if REPLAY and point != REPLAY:
        return
    copy_of(chapter.before, state)
    end = await run(state, chapter.source, Doom(at, fault), approve=chapter.approve)
    if end is None:
        end = await run(state, chapter.source, approve=chapter.approve)
    assert end is not None
    for part, expected in chapter.end.items():
        assert end[part] == expected, f"{part} differ: TENANTRY_CRASH_POINT={point}"


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", story.CHAPTERS)
async def test_the_end_is_the_same_wherever_it_strikes(
    name: str, fault: Fault, chapters: dict[str, Chapter], tmp_path: Path, tried: Tried
) -> None:
    chapter = chapters[name]
    for at in range(1 + (list(Fault).index(fault) + TURN) % STEP, chapter.places + 1, STEP):
        await _check(chapter, name, at, fault, tmp_path / "state")
        tried()


def test_the_campaign_has_its_three_hundred_places(chapters: dict[str, Chapter]) -> None:
    assert sum(chapter.places for chapter in chapters.values()) * len(Fault) >= 300
