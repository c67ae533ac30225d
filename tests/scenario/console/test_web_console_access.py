"""C11: axe-core finds nothing on any page of the console, in both themes, at each width, of an example and of no objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

from tests.scenario.console.browser_place import place_in
from tests.scenario.identity_provider import trusting
from tests.screens.__main__ import EXAMPLE, READY_MS
from tests.screens.pages import pages_of

WIDTHS = (320, 768, 1440)
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "resultTypes": ["violations"],  # the nodes that pass are not described: that took most of the time
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("width", WIDTHS)  # one test for all would be the longest of the tier
@pytest.mark.parametrize("platform", ["example", "empty"])
async def test_axe_finds_nothing_on_any_page(platform: str, width: int, tmp_path: Path) -> None:
    issuer = trusting("http://127.0.0.1:9", tmp_path)
    async with place_in(tmp_path, EXAMPLE if platform == "example" else None, issuer) as place:
        page, found = place.page, list[Any]()
        await page.goto(f"{place.base}/console/sign-in")
        pages = {"sign-in": page.url}
        await place.enter()
        if platform == "example":
            await page.get_by_text("Everything is Ready").wait_for(timeout=READY_MS)
        pages |= await pages_of(page, place.base)
        for name, address in pages.items():
            await page.goto(address)
            found += [(name, *each) for each in await violations(page, [width])]
        assert found == []


PLANS = {
    "a plan": "apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: far-away}\nspec: {displayName: Far away}\n",
    "a refused text": "apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: far-away}\nspec: {nosuch: 1}\n",
}


async def test_axe_finds_nothing_on_plans_that_are_shown_nor_where_a_text_is_refused(tmp_path: Path) -> None:
    async with place_in(tmp_path, None) as place:
        await place.enter()
        found = list[Any]()
        for name, text in PLANS.items():
            await place.page.goto(f"{place.base}/console/plan")
            await place.page.fill("#text", text)
            await place.page.click("text=Show the plan")
            await place.page.get_by_text("far-away").first.wait_for()
            found += [(name, *each) for each in await violations(place.page)]
        assert found == []


async def violations(page: Page, widths: Sequence[int] = WIDTHS) -> list[tuple[Any, ...]]:
    """Return the findings of axe on the page, in both themes and at each of these widths."""
    found = list[tuple[Any, ...]]()
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        for width in widths:
            await page.set_viewport_size({"width": width, "height": 900})
            results = await Axe().run(page, options=RULES)
            for one in results.response["violations"]:
                found += [(theme, width, one["id"], node["html"][:160], node["any"][:1]) for node in one["nodes"]]
    return found
