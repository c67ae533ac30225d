"""The findings of axe-core on a page of the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

WIDTHS = (320, 768, 1440)
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    "resultTypes": ["violations"],  # the nodes that pass are not described: that took most of the time
}


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
