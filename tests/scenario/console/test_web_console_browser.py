"""A real browser in the console of `tenantry up`: sign-in by the printed address, live updates, and what a page may not do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.scenario.console.browser_place import by_issuer, place_in
from tests.scenario.hosts import object_
from tests.scenario.identity_provider import provider_of, trusting
from tests.screens.pages import pages_of

ABSENT = {"not-found": 404, "no-page": 404}
WIDTHS = (320, 390, 768, 1440, 1920)
LIVE_MS = 60_000
STEAL = """async (url) => {
    try { return (await (await fetch(url, {credentials: "include"})).text()).length; } catch { return -1; }
}"""
pytestmark = pytest.mark.slow


async def test_a_person_enters_by_the_printed_address_and_sees_a_change_arrive(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.declare("First <b>title</b>")
        await place.enter()
        page = place.page
        assert page.url == f"{place.base}/console/"
        await page.goto(f"{place.base}/console/environments")
        await page.get_by_text("First <b>title</b>").wait_for(timeout=LIVE_MS)
        await page.focus("#q")
        await page.keyboard.type("titl")
        place.declare("Second <script>title</script>")
        await page.get_by_text("Second <script>title</script>").wait_for(timeout=LIVE_MS)
        assert await page.locator("#q:focus").count() == 1
        await page.click("td.name a")
        assert await page.inner_text("h1") == "Second <script>title</script>"
        await page.click("text=Sign out")
        assert page.url == f"{place.base}/console/sign-in"
        await page.goto(f"{place.base}/console/environments")
        assert page.url.startswith(f"{place.base}/console/sign-in?next=")
        assert place.faults == []
        assert {url for url in place.requests if not url.startswith(f"{place.base}/console/")} == set()


async def test_a_person_finds_out_why_an_environment_is_not_ready(tmp_path: Path) -> None:
    """docs/console.md, step by step."""
    async with place_in(tmp_path) as place:
        declared = [
            object_("Tenant", "", "acme", displayName="Acme"),
            object_("Environment", "tenant-acme", "dev", region="here", displayName="Development"),
        ]
        (place.source / "all.yaml").write_text(yaml.safe_dump_all(declared))
        await place.enter()
        page = place.page
        await page.get_by_role("heading", name="1 needs you").wait_for(timeout=LIVE_MS)
        await page.click("td.name a:text('Development')")
        lead = await page.inner_text("p.lead")
        assert "RegionNotFound" in lead
        assert "all.yaml" in await page.inner_text("main")
        await page.click("main .above a:text('Acme')")
        cause = page.locator(".cause a").first
        assert await cause.inner_text() == "Environment Development"
        await page.keyboard.press("/")
        await page.wait_for_url("**/console/search")
        await page.keyboard.press("/")
        await page.keyboard.type("develop")
        await page.keyboard.press("Enter")
        await page.click("td.name a:text('Development')")
        place.declare("Development")
        await page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
        assert place.faults == []


async def test_a_person_makes_an_environment_with_the_form(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.declare("First")
        await place.enter()
        page = place.page
        await page.get_by_role("heading", name="Everything is Ready").wait_for(timeout=LIVE_MS)
        await page.goto(f"{place.base}/console/environments")
        await page.click("text=New Environment")
        for field, value in (("tenantId", "acme"), ("name", "Second <i>one</i>"), ("slug", "dev"), ("region", "here")):
            await page.fill(f"#{field}", value)
        await page.click("text=Show the plan")
        assert "taken" in await page.inner_text("#slug-problem")
        assert await page.get_attribute("#slug", "aria-invalid") == "true"
        await page.fill("#slug", "second")
        await page.click("text=Show the plan")
        await page.get_by_text("This would happen").wait_for()
        await page.click("button:text('Create')")
        assert await page.inner_text("h1") == "Second <i>one</i>"
        await page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
        assert [fault for fault in place.faults if "400" not in fault] == []


async def test_a_person_signs_in_by_an_issuer(tmp_path: Path) -> None:
    async with (
        provider_of({"sub": "root@example.com", "role": "SUPERUSER"}) as provider,
        place_in(tmp_path, variables=trusting(provider.url, tmp_path)) as place,
    ):
        await by_issuer(place.page, f"{place.base}/console/regions", "root@example.com")
        assert place.page.url == f"{place.base}/console/regions"
        assert "root@example.com" in await place.page.inner_text("header")
        await place.page.click("text=Sign out")
        await place.page.goto(f"{place.base}/console/")
        assert place.page.url.startswith(f"{place.base}/console/sign-in")
        own = [url for url in place.requests if not url.startswith(provider.url)]
        assert {url for url in own if not url.startswith(f"{place.base}/console/")} <= {url for url in own if "jsdelivr" in url}


async def test_every_page_reads_without_scripts_and_fits_every_width(tmp_path: Path) -> None:
    async with place_in(tmp_path, java_script_enabled=False) as place:
        place.declare("A title of " + "many words " * 8)
        await place.enter()
        page = place.page
        pages = await pages_of(page, place.base)
        assert {"environments-one", "tenants-one", "operations-one", "environments-reconcile", "plan", "health"} <= set(pages)
        for name, address in pages.items():
            answer = await page.goto(address)
            assert answer is not None and answer.status == ABSENT.get(name, 200), address
            assert await page.inner_text("h1") != "", address
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 800})
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, (address, width)
        assert [fault for fault in place.faults if "404" not in fault] == []


async def test_a_person_without_scripts_searches_filters_unfolds_and_plans(tmp_path: Path) -> None:
    async with place_in(tmp_path, java_script_enabled=False) as place:
        place.declare("Development")
        await place.enter()
        page = place.page
        await page.fill("#q", "develop")
        await page.click("button:text('Search')")
        assert await page.locator("td.name a:text('Development')").count() == 2, "the Region and the Environment"
        await page.goto(f"{place.base}/console/environments")
        await page.fill("#q", "nothing-has-this-name")
        await page.click("button:text('Apply')")
        await page.get_by_text("Nothing matches").wait_for()
        await page.click("a:text('Clear')")
        await page.click("td.name a")
        await page.click("summary:text('YAML')")
        assert "kind: Environment" in await page.inner_text("#yaml-text")
        await page.goto(f"{place.base}/console/tenants/new")
        for field, value in (("name", "Globex"), ("slug", "globex")):
            await page.fill(f"#{field}", value)
        await page.click("button:text('Show the plan')")
        assert "+ Tenant/globex" in await page.inner_text("main")
        await page.click("button:text('Create')")
        assert await page.inner_text("h1") == "Globex"


async def test_a_page_that_breaks_its_policy_in_any_tab_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="C10"):
        async with place_in(tmp_path) as place:
            await place.enter()
            tab = await place.page.context.new_page()
            await tab.goto(f"{place.base}/console/regions")
            async with tab.expect_console_message(lambda message: "style-src-attr" in message.text):
                await tab.evaluate("document.querySelector('main').setAttribute('style', 'color: red')")


async def test_the_content_of_an_app_does_not_share_the_origin_of_the_console(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        place.declare("Title")
        await place.enter()
        await place.page.goto(f"{place.base}/console/environments")
        await place.page.get_by_text("Ready", exact=True).first.wait_for(timeout=LIVE_MS)
        await place.page.click("td.name a")
        address = await place.page.locator("dd a[rel=noreferrer]").get_attribute("href")
        assert address is not None and address.startswith("http://127.0.0.1:")
        engine = await place.page.context.new_page()
        await engine.goto(f"{address.rstrip('/')}/api/v1/auth/me")
        assert await engine.evaluate(STEAL, f"{place.base}/console/") == -1
        by_name = await engine.goto(f"{address.rstrip('/')}/api/v1/auth/me".replace("127.0.0.1", "localhost"))
        assert by_name is not None and "sandbox" in (by_name.headers)["content-security-policy"]
        assert await engine.evaluate("self.origin") == "null"
        assert await engine.evaluate(STEAL, f"{place.base}/console/") == -1
