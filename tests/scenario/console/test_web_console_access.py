"""C11: axe-core finds nothing on any page of the console, in both themes, at each width.

The pages are those of an example, of no objects, of many with faults, and of what was refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scenario.console.accessibility import violations
from tests.scenario.console.browser_place import place_in
from tests.scenario.hosts import object_
from tests.scenario.identity_provider import trusting
from tests.screens.__main__ import EXAMPLE, READY_MS
from tests.screens.pages import pages_of

pytestmark = pytest.mark.slow
STYLES = Path(__file__).parents[3] / "operator" / "tenantry" / "console" / "static" / "console.css"


def test_the_themes_differ_in_colours_only() -> None:
    """So rules that are not about colours need only one of them."""
    styles = STYLES.read_text("utf-8")
    (dark,) = re.findall(r"^@media \(prefers-color-scheme: dark\) \{(.*?)^\}", styles, re.MULTILINE | re.DOTALL)
    assert styles.count("prefers-color-scheme") == 1
    assert re.fullmatch(r"\s*:root \{(\s*--[\w-]+: #[0-9a-f]{6};)+\s*\}\s*", dark)


def test_two_widths_show_all_that_the_console_shows() -> None:
    """So colours need no third."""
    assert set(re.findall(r"\bm[a-z]+-width: \w+(?=\) \{)", STYLES.read_text("utf-8"))) == {"max-width: 760px"}


@pytest.mark.parametrize("platform", ["example", "empty"])
async def test_axe_finds_nothing_on_any_page(platform: str, tmp_path: Path) -> None:
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
            found += [(name, *each) for each in await violations(page)]
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


MANY = 250
"""Environments: more than a page lists, and than a tree draws."""


def source_of_many(folder: Path) -> Path:
    """A tenant whose environments all wait for a Region that somebody must declare."""
    folder.mkdir()
    lost = (object_("Environment", "tenant-acme", f"env-{number}", region="nowhere") for number in range(MANY))
    (folder / "all.yaml").write_text(yaml.safe_dump_all([object_("Tenant", "", "acme", displayName="Acme"), *lost]))
    return folder


async def test_axe_finds_nothing_on_pages_of_many_faults_nor_where_a_form_is_refused(tmp_path: Path) -> None:
    async with place_in(tmp_path, source_of_many(tmp_path / "declared")) as place:
        await place.enter()
        page, console = place.page, f"{place.base}/console"
        await page.get_by_role("heading", name=f"{MANY} need you").wait_for(timeout=READY_MS)
        found = [("fleet", *each) for each in await violations(page)]
        await page.goto(f"{console}/environments")
        await page.click("text=Next page")
        found += [("the second page of a list", *each) for each in await violations(page)]
        await page.click("td.name a")
        found += [("an environment with a fault", *each) for each in await violations(page)]
        await page.click("main .above a:text('Acme')")
        await page.get_by_text("more environments").wait_for()
        found += [("a folded tree", *each) for each in await violations(page)]
        await page.goto(f"{console}/tenants/new")
        await page.click("text=Show the plan")
        await page.locator("[aria-invalid]").first.wait_for()
        found += [("a refused form", *each) for each in await violations(page)]
        for field, value in (("name", "Globex"), ("slug", "globex")):
            await page.fill(f"#{field}", value)
        await page.click("text=Show the plan")
        await page.click("button:text('Create')")
        await page.get_by_role("heading", name="Globex").wait_for()
        await page.click("a:text('Delete')")
        await page.fill("#name", "another")
        await page.click("button.danger")
        await page.get_by_role("alert").wait_for()
        found += [("a refused deletion", *each) for each in await violations(page)]
        assert found == []
