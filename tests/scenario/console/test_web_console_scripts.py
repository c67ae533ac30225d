"""Pages are live, in whatever order their scripts arrive."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright import async_api as playwright

from tenantry.console.http.assets import ASSETS
from tests.scenario.console.browser_place import declare_in, place_in

LIVE_MS = 60_000
TURNS = "() => new Promise(done => setTimeout(() => setTimeout(done, 100), 100))"
"""The other scripts run, and what they left for later."""
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("late", sorted(name for name in ASSETS.addresses if name.endswith(".js")))
async def test_a_page_is_live_although_a_script_arrives_late(tmp_path: Path, late: str) -> None:
    async with place_in(tmp_path, declare_in(tmp_path / "declared", "Evening")) as place:
        page = place.page

        async def held(route: playwright.Route) -> None:
            await page.evaluate(TURNS)
            await route.continue_()

        await page.route(re.compile(re.escape(late)), held)
        await place.enter()
        async with page.expect_request(re.compile("/console/live"), timeout=LIVE_MS):
            await page.goto(f"{place.base}/console/environments")
        await page.get_by_role("link", name="Evening").wait_for(timeout=LIVE_MS)
        place.declare("Morning")
        await page.get_by_role("link", name="Morning").wait_for(timeout=LIVE_MS)
        assert place.faults == []
