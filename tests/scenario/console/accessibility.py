"""The findings of axe-core on a page of the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

WIDTHS = (320, 768, 1440)
ONLY = {"resultTypes": ["violations"]}
"""The nodes that pass are not described: that took most of the time."""
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    **ONLY,
}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}, **ONLY}
"""The rules about colours, of those in RULES. A test holds that nothing else differs between the themes of the console."""


async def violations(page: Page, widths: Sequence[int] = WIDTHS, dark: Mapping[str, Any] = COLOURS) -> list[tuple[Any, ...]]:
    """Return the findings of axe on the page, in both themes and at each of these widths. dark: the rules for that theme."""
    found = list[tuple[Any, ...]]()
    await page.evaluate(Axe().axe_script)
    for theme, rules in (("light", RULES), ("dark", dark)):
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        for width in widths:
            await page.set_viewport_size({"width": width, "height": 900})
            found += [(theme, width, *one) for one in await findings(page, rules)]
    return found


async def findings(page: Page, rules: Mapping[str, Any], part: str = "html") -> list[tuple[Any, ...]]:
    """Return the findings of axe on a part of the page, as it is now. The page holds axe already."""
    script = "async ([part, rules]) => (await axe.run(part, rules)).violations"
    told: list[dict[str, Any]] = await page.evaluate(script, [part, rules])
    return [(one["id"], node["html"][:160], node["any"][:1]) for one in told for node in one["nodes"]]
