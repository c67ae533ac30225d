"""C13 and C11: many tabs, streams that end with the platform, the keyboard, and a focus that survives updates."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tenantry.adapters.store.state_folder import password_file
from tests.scenario.console.browser_place import Place, place_in
from tests.scenario.console.streams import end_under_streams, open_a_page_beside_many
from tests.scenario.hosts import object_

SWAPS = 1_000
LIVE_MS = 90_000
TITLE = "Development"
HIDE = """() => {
    Object.defineProperty(document, "hidden", {get: () => true, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW = "() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }"
"""Scripts that do as a browser does when a person leaves a tab, and comes back."""
READING = "[...document.querySelectorAll('[hx-sse\\\\:connect]')].some(one => one._htmx?.sse?.reader)"
"""True once a stream is read. One that only begins when its tab is hidden is read by htmx all the same."""
SWAPPING = """async ([address, count]) => {
  for (let n = 0; n < count; n++) {
    await htmx.ajax("GET", address, {target: "#page", swap: "innerMorph"});
    if (document.activeElement !== document.getElementById("q")) return n;
  }
  return count;
}"""
pytestmark = pytest.mark.slow


async def test_many_tabs_the_keyboard_and_the_end(tmp_path: Path) -> None:
    async with place_in(tmp_path, source_in(tmp_path / "declared")) as place:
        await place.enter()
        await place.page.get_by_role("heading", name="Everything is Ready").wait_for(timeout=LIVE_MS)
        await open_a_page_beside_many(place.page, f"{place.base}/console/")
        await keeps_the_focus(place)
        await pauses_while_hidden(place)
        await works_by_keyboard(place)
        assert place.faults == []
        await end_under_streams(
            place.base, password_file(tmp_path / ".tenantry"), "/environments", TITLE, lambda: place.running.end()
        )


def source_in(folder: Path) -> Path:
    folder.mkdir()
    declare(folder, TITLE)
    return folder


def declare(folder: Path, title: str) -> None:
    """Write the source anew. title: of its environment."""
    declared = [
        object_("Region", "", "here"),
        object_("Tenant", "", "acme", displayName="Acme"),
        object_("Environment", "tenant-acme", "dev", region="here", displayName=title),
    ]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(declared))


async def keeps_the_focus(place: Place) -> None:
    page = place.page
    await page.goto(f"{place.base}/console/environments")
    await page.focus("#q")
    await page.keyboard.type("deve")
    await page.evaluate("document.getElementById('q').setSelectionRange(1, 3)")
    address = f"{place.base}/console/live?of=/environments&once=1&seen=none"
    assert await page.evaluate(SWAPPING, [address, SWAPS]) == SWAPS
    kept = "(q => [q.value, q.selectionStart, q.selectionEnd])(document.getElementById('q'))"
    assert await page.evaluate(kept) == ["deve", 1, 3]


async def pauses_while_hidden(place: Place) -> None:
    """The stream of a hidden tab ends, and begins again with what has changed in between."""
    page, title = place.page, "Changed while nobody looked"
    await page.goto(f"{place.base}/console/environments")
    await page.wait_for_function(READING, timeout=LIVE_MS)
    async with page.expect_event("requestfailed", lambda request: "/console/live?" in request.url, timeout=LIVE_MS):
        await page.evaluate(HIDE)
    declare(place.source, title)
    async with page.expect_request("**/console/live?*", timeout=LIVE_MS):
        await page.evaluate(SHOW)
    await page.get_by_role("link", name=title).wait_for(timeout=LIVE_MS)
    declare(place.source, TITLE)
    await page.get_by_role("link", name=TITLE).wait_for(timeout=LIVE_MS)


async def tab_to(place: Place, words: str) -> None:
    """Move the focus by the keyboard to what has these words."""
    passed: list[str] = []
    for _ in range(80):
        await place.page.keyboard.press("Tab")
        focused = "(e => (e.textContent || '').trim() + '|' + e.id)(document.activeElement)"
        passed.append(await place.page.evaluate(focused))
        if words in passed[-1].split("|"):
            return
    raise AssertionError(f"the keyboard does not reach {words!r} on {place.page.url}, only {passed}")


async def follow(place: Place, words: str, leads: str) -> None:
    await tab_to(place, words)
    await place.page.keyboard.press("Enter")
    await place.page.wait_for_url(f"**{leads}", timeout=LIVE_MS)


async def works_by_keyboard(place: Place) -> None:
    """Twelve tasks."""
    page, console = place.page, f"{place.base}/console"
    await page.goto(f"{console}/")
    await tab_to(place, "Skip to the content")  # 1: skip the navigation
    await page.keyboard.press("Enter")
    assert page.url.endswith("#page")
    await page.keyboard.press("/")  # 2: search
    await page.keyboard.type("develop")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/search?q=develop", timeout=LIVE_MS)
    await follow(place, "Development", "/environments/*")  # 3: open what was found
    environment = page.url
    await tab_to(place, "YAML")  # 4: unfold the declaration
    await page.keyboard.press("Enter")
    assert await page.locator("#yaml[open]").count() == 1
    await page.goto(environment)
    await follow(place, "Reconcile", "/reconcile")  # 5: see the plan of an action
    await follow(place, "Leave it as it is", "/environments/*")  # 6: leave it
    await follow(place, "Reconcile", "/reconcile")
    await follow(place, "Reconcile", environment.removeprefix(place.base))  # 7: carry an action out
    await page.goto(f"{console}/environments")
    await tab_to(place, "state")  # 8: filter a list
    await page.keyboard.press("R")
    await tab_to(place, "Apply")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**state=ready*", timeout=LIVE_MS)
    await follow(place, "Clear", "/environments")  # 9: clear the filter
    await follow(place, "New Environment", "/environments/new")  # 10: make an environment, as far as its plan
    for field, value in (("tenantId", "acme"), ("name", "Second"), ("slug", "second"), ("region", "here")):
        await tab_to(place, field)
        await page.keyboard.type(value)
    await tab_to(place, "Show the plan")
    await page.keyboard.press("Enter")
    await page.get_by_text("This would happen").wait_for(timeout=LIVE_MS)
    await page.goto(f"{console}/plan")  # 11: plan a text
    await tab_to(place, "text")
    await page.keyboard.type("kind: Tenant")
    await tab_to(place, "Show the plan")
    await page.keyboard.press("Enter")
    await page.get_by_text("YAML:1").first.wait_for(timeout=LIVE_MS)
    place.faults.clear()  # the refused text is a 400, which the browser logs
    await page.goto(f"{console}/operations")  # 12: read the log of an Operation
    await tab_to(place, "CREATE_ENVIRONMENT dev")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/operations/op-*", timeout=LIVE_MS)
    assert await page.locator("pre[tabindex='0']").count() >= 1
