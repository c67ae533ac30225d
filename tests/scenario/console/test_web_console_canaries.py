"""C15: markup in any declared or reported text runs in no browser, also where no policy forbids it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.console.reading.rights import TYPES
from tests.scenario.console.canaries import CANARIES, attacked
from tests.scenario.console.console_world import BASE, console_world
from tests.scenario.console.unguarded import COUNTED, shown, unguarded

pytestmark = pytest.mark.slow


async def test_no_text_of_any_kind_runs_in_a_browser(tmp_path: Path) -> None:
    found = list[str]()
    async with console_world(tmp_path) as world, unguarded(await world("root")) as (page, opened):
        for kind, type_ in TYPES.items():
            document, _ = attacked(kind)
            document["metadata"]["uid"] = f"uid-{kind.lower()}"
            world.context.cache.absorb(document)
            for path in (f"/{type_.PLURAL}", f"/{type_.PLURAL}/uid-{kind.lower()}"):
                found += await shown(page, path)
        for path in ("/", "/search?q=canary"):
            found += await shown(page, path)
        assert (found, opened) == ([], [])


async def test_the_same_browser_runs_what_is_not_escaped(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world, unguarded(await world("root")) as (page, opened):
        await page.goto(f"{BASE}/console/regions")
        async with page.expect_event("dialog"):
            await page.evaluate("text => { document.getElementById('page').innerHTML = text; }", CANARIES[0])
        assert await page.evaluate(COUNTED) >= 1
        assert opened == ["1"]
