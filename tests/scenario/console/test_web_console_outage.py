"""C14: with the store away, pages go on and show within 5 s how old their data is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.async_api import TimeoutError

from tests.scenario.console.browser_place import declare_in, place_in
from tests.support.patience import BUSY

SHOWN_S = 5.0
LIVE_MS = 60_000
pytestmark = pytest.mark.slow


async def test_pages_of_one_machine_show_the_age_of_their_data_while_the_database_is_away(tmp_path: Path) -> None:
    async with place_in(tmp_path, declare_in(tmp_path / "declared", "Development")) as place:
        await place.enter()
        page, banner = place.page, place.page.locator("#old")
        await page.get_by_role("heading", name="Everything is Ready").wait_for(timeout=LIVE_MS)
        assert await banner.count() == 0
        database = tmp_path / ".tenantry" / "state.db"
        away = database.rename(tmp_path / "away.db")
        gone = time.monotonic()
        try:
            await banner.wait_for(timeout=LIVE_MS)
        except TimeoutError:
            page_now = await page.inner_text("main")
            pytest.fail(f"no banner: {place.requests[-5:]} {place.faults} {page_now} {(tmp_path / 'stderr').read_text()[-2000:]}")
        took = time.monotonic() - gone
        assert took <= SHOWN_S * BUSY
        assert "does not answer" in await banner.inner_text()
        shown_at = await banner.locator("time").get_attribute("datetime")
        for path in ("", "environments", "environments?q=dev", "operations", "environments/new"):
            answer = await page.goto(f"{place.base}/console/{path}")
            assert answer is not None and answer.status == 200, path
            assert await banner.locator("time").get_attribute("datetime") == shown_at, path
        await page.goto(f"{place.base}/console/environments")
        await page.click("td.name a")
        assert await page.inner_text("h1") == "Development"
        refused = await page.goto(f"{page.url}/reconcile")
        assert refused is not None and refused.status in (200, 503)
        await page.goto(f"{place.base}/console/environments")
        away.rename(database)
        await banner.wait_for(state="detached", timeout=LIVE_MS)
        print(f"the banner came after {took:.1f} s")
