"""The findings of axe-core on a page of the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

ONLY = {"resultTypes": ["violations"]}
"""The nodes that pass are not described: that took most of the time."""
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
    **ONLY,
}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}, **ONLY}
"""The rules about colours, of those in RULES."""


class Look(NamedTuple):
    """A page in a theme and at a width, and the rules that are asked there."""

    theme: Literal["light", "dark"]
    width: int
    rules: Mapping[str, Any]


CONSOLE = (*(Look("light", width, RULES) for width in (320, 768, 1440)), *(Look("dark", width, COLOURS) for width in (320, 1440)))
"""Tests hold that the console's themes differ in colours alone, and that it shows the same from 761 pixels on."""


def both_themes(width: int) -> Sequence[Look]:
    """All rules in each."""
    return Look("light", width, RULES), Look("dark", width, RULES)


async def violations(page: Page, looks: Sequence[Look] = CONSOLE) -> list[tuple[Any, ...]]:
    """Return the findings of axe on the page."""
    found = list[tuple[Any, ...]]()
    await page.evaluate(Axe().axe_script)
    for theme, width, rules in looks:
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        await page.set_viewport_size({"width": width, "height": 900})
        found += [(theme, width, *one) for one in await findings(page, rules)]
    return found


async def findings(page: Page, rules: Mapping[str, Any], part: str = "html") -> list[tuple[Any, ...]]:
    """Return the findings of axe on a part of the page, as it is now. The page holds axe already."""
    script = "async ([part, rules]) => (await axe.run(part, rules)).violations"
    told: list[dict[str, Any]] = await page.evaluate(script, [part, rules])
    return [(one["id"], node["html"][:160], node["any"][:1]) for one in told for node in one["nodes"]]
