"""The pages of a console by name: the fleet, each list, one object of each kind, its actions, forms, searches and refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping

from playwright.async_api import Page

FURTHER = {
    "not-found": "environments/none",
    "no-page": "nothing/at/all",
    "no-match": "environments?q=nothing-has-this-name",
    "search": "search?q=e",
    "search-no-match": "search?q=nothing-has-this-name",
    "plan": "plan",
    "removed": "removed",
    "environments-new": "environments/new",
    "tenants-new": "tenants/new",
}
"""Pages to which no list leads."""


async def pages_of(page: Page, base: str) -> Mapping[str, str]:
    """The addresses of all pages of the console at that address, by name; the page is signed in."""
    found = {"fleet": f"{base}/console/"}
    await page.goto(found["fleet"])
    for link in await _links(page, "nav a[href*='/console/']"):
        name = link.rpartition("/")[2]
        if name:
            found[name] = link
    for name, link in list(found.items())[1:]:
        await page.goto(link)
        for one in (await _links(page, "td.name a"))[:1]:
            found[f"{name}-one"] = one
    for name, link in [each for each in found.items() if each[0].endswith("-one")]:
        await page.goto(link)
        for action in await _links(page, ".head a.act"):
            found[f"{name.removesuffix('-one')}-{_verb(action)}"] = action
    if "apps-one" in found:
        found["apps-rows"] = f"{found['apps-one']}/rows"
        await page.goto(found["apps-rows"])
        for table in (await _links(page, "ul.beside a"))[:1]:
            found |= {"apps-rows-table": table, "apps-rows-refused": f"{table}&filter=nosuch%3Deq.1"}
    return found | {name: f"{base}/console/{path}" for name, path in FURTHER.items()}


async def _links(page: Page, selector: str) -> list[str]:
    links: list[str] = await page.locator(selector).evaluate_all("links => links.map(link => link.href)")
    return links


def _verb(link: str) -> str:
    return re.sub(r"[^\w-].*", "", link.rpartition("/")[2])
