"""The four tasks of docs/console.md, followed step by step in a real browser: what is bold there is clicked or seen."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Page

from tests.scenario.console.browser_place import Place, place_in
from tests.scenario.console.declared_crm import BASE, declare, environment, source_of
from tests.scenario.hosts import object_
from tests.scenario.repositories import Remote

DOCS = Path(__file__).parents[3] / "docs" / "console.md"
LIVE_MS = 90_000
pytestmark = pytest.mark.slow


@dataclass
class Walk:
    """A task of the documentation. seen: the words of its steps that were clicked or read."""

    page: Page
    title: str
    seen: set[str] = field(default_factory=set)

    async def click(self, word: str, within: str = "main") -> None:
        """Choose a link or a button by its words."""
        await self.page.locator(f"{within} :is(a, button):text-is('{word}')").first.click(timeout=LIVE_MS)
        self.seen.add(word)

    async def reads(self, word: str, within: str = "main") -> None:
        """Wait for words on the page."""
        await self.page.locator(within).get_by_text(word).first.wait_for(timeout=LIVE_MS)
        self.seen.add(word)

    def finish(self) -> None:
        """Fail if the steps name something that was neither clicked nor read."""
        section = DOCS.read_text("utf-8").partition(f"## {self.title}\n")[2].partition("\n## ")[0]
        steps = section.partition("\n1. ")[2].partition("\n\n")[0]
        bold = set(re.findall(r"\*\*(.+?)\*\*", steps.replace("\n   ", " ")))
        assert bold, self.title
        assert bold - self.seen == set(), self.title


async def test_each_task_works_as_it_is_written(tmp_path: Path) -> None:
    async with place_in(tmp_path, source_of(tmp_path / "declared")) as place:
        await place.enter()
        await find_out_why(place)
        await promote(place)
        await approve(place, tmp_path)
        await undelete(place)
        assert place.faults == []


async def find_out_why(place: Place) -> None:
    walk = Walk(place.page, "Find out why an environment is not Ready")
    await walk.click("Fleet", "nav")
    await walk.reads("1 needs you", "h1")
    await walk.page.click("td.name a:text('LOST')")
    assert "RegionNotFound" in await walk.page.inner_text("p.lead")
    for heading in ("What is in it", "Operations"):
        await walk.reads(heading)
    await walk.reads("Declared at")
    await walk.page.click("main .above a:text('Acme')")
    assert await walk.page.locator(".cause a").first.inner_text() == "Environment LOST"
    walk.seen.add("Because of")  # shown where another object is to blame: tests/unit/console/test_trees.py
    declare(place, *BASE)
    await walk.click("Fleet", "nav")
    await walk.reads("Everything is Ready", "h1")
    walk.finish()


async def promote(place: Place) -> None:
    walk = Walk(place.page, "Promote a version")
    await walk.page.goto(f"{place.base}/console/environments")
    await walk.page.click("td.name a:text('LIVE')")
    await walk.reads("Apps")
    await walk.page.click("a:text-is('Promote 1.0.0')")
    walk.seen |= {"Promote"}
    await walk.reads("Plan", "h1")
    await walk.click("Show the plan")
    await walk.reads("+ App/tenant-acme/live.crm")
    await walk.click("Apply")
    await walk.page.click("a:text('App/tenant-acme/live.crm')")
    await walk.page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
    walk.finish()


async def approve(place: Place, folder: Path) -> None:
    walk = Walk(place.page, "Approve a held-back prune")
    repository = Remote.at(folder / "repository")
    app = object_("App", "tenant-acme", "kept.crm", environment="kept", app="crm", version="1.0.0")
    repository.commit({"a.yaml": yaml.safe_dump_all([environment("kept"), app])})
    source = object_("Source", "tenantry-system", "team", url=f"file://{repository.folder}", prune={"objects": 0, "percent": 0})
    declare(place, *BASE, source)
    await walk.page.goto(f"{place.base}/console/environments")
    await walk.page.click("td.name a:text('KEPT')", timeout=LIVE_MS)
    await walk.page.locator("#app-crm td.mono", has_text="1.0.0").wait_for(timeout=LIVE_MS)
    repository.commit({"a.yaml": "# nothing is declared any more\n"})
    await walk.click("Sources", "nav")
    await walk.page.click("td.name a:text('team')")
    await walk.click("Reconcile")
    await walk.page.click("button.main")
    await walk.reads("Kept, until somebody approves")
    await walk.reads("Environment/tenant-acme/kept")
    await walk.click("Approve")
    await walk.reads("This would happen")
    await walk.page.click("button.danger")
    await walk.page.goto(f"{place.base}/console/environments")
    await walk.page.locator("td.name a:text('KEPT')").wait_for(state="detached", timeout=LIVE_MS)
    walk.finish()


async def undelete(place: Place) -> None:
    walk = Walk(place.page, "Undelete an environment")
    await walk.click("Environments", "nav")
    await walk.click("Removed environments")
    row = walk.page.locator("tr", has_text="kept")
    await row.get_by_role("link", name="Undelete").click()
    walk.seen.add("Undelete")
    await walk.reads("+ Environment/tenant-acme/kept")
    await walk.page.click("button.main")
    await walk.page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
    assert await walk.page.inner_text("h1") == "KEPT"
    walk.finish()
