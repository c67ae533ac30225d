"""The console of a release on a node, in a real browser: the person of examples/02-music-company who looks at it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import yaml
from playwright.async_api import Page

from tests.cluster.consoles import LIVE_MS, of_release, origin
from tests.cluster.running import Kube, object_
from tests.scenario.console.accessibility import both_themes, violations
from tests.screens.pages import pages_of
from tests.support.patience import BUSY

HOME, NAME, TITLE = "tenant-europe", "staging", "Europe, staging"
SHOWN_S = 1.0
"""The gate of the design, from a change by kubectl to the page."""
ABSENT = {"not-found": 404, "no-page": 404, "apps-rows-refused": 400}
WIDTH = 1440


async def look_around(url: str, kube: Kube) -> None:
    """Use the console at that address of this machine as the bootstrap SUPERUSER. All is Ready before and after."""
    base = origin(url)
    async with of_release(base, kube, "") as page:
        await page.get_by_role("heading", name="Everything is Ready").wait_for(timeout=LIVE_MS)
        await _every_page_is_there_for_everybody(page, base)
        await _a_change_by_kubectl_is_shown(page, base, kube)
        await _a_plan_is_applied(page, base, kube)
        await _the_origin_serves_no_app_and_rest_no_cookie(page, base, kube)
        await page.goto(f"{base}/console/")
        await page.click("text=Sign out")
        await page.goto(f"{base}/console/environments")
        assert "/console/sign-in" in page.url


async def _every_page_is_there_for_everybody(page: Page, base: str) -> None:
    found = list[Any]()
    for name, address in (await pages_of(page, base)).items():
        answer = await page.goto(address)
        assert answer is not None and answer.status == ABSENT.get(name, 200), address
        found += [(name, *each) for each in await violations(page, both_themes(WIDTH))]
    assert found == []


async def _a_change_by_kubectl_is_shown(page: Page, base: str, kube: Kube) -> None:
    await page.goto(f"{base}/console/environments")
    for title in ("Seen <b>at once</b>", TITLE):
        patch = yaml.safe_dump({"spec": {"displayName": title}})
        await asyncio.to_thread(kube, "patch", "environment", NAME, "-n", HOME, "--type=merge", "-p", patch)
        began = time.monotonic()
        await page.get_by_role("link", name=title, exact=True).wait_for(timeout=LIVE_MS)
        took = time.monotonic() - began
        print(f"a change by kubectl is on screen after {took:.2f} s")
        assert took <= SHOWN_S * BUSY
    await asyncio.to_thread(kube.ready, f"tenv/{NAME}", HOME)


async def _a_plan_is_applied(page: Page, base: str, kube: Kube) -> None:
    environment = object_("Environment", "seen", HOME, region="eu-central", displayName="Seen", deletionPolicy="Delete")
    await page.goto(f"{base}/console/plan")
    await page.fill("#text", yaml.safe_dump(environment))
    await page.click("text=Show the plan")
    await page.get_by_text(f"+ Environment/{HOME}/seen").wait_for(timeout=LIVE_MS)
    await page.click("button[value=do]")
    await page.click(f"a:text('Environment/{HOME}/seen')")
    assert await page.inner_text("h1") == "Seen"
    await asyncio.to_thread(kube, "delete", "environment", "seen", "-n", HOME, "--timeout=120s")
    await page.get_by_role("heading", name="Not found").wait_for(timeout=LIVE_MS)


async def _the_origin_serves_no_app_and_rest_no_cookie(page: Page, base: str, kube: Kube) -> None:
    uid = (await asyncio.to_thread(kube.get, "environment", NAME, HOME))["metadata"]["uid"]
    for path in (f"/engines/{uid}/apps/music-store/", f"/engines/{uid}/apps/music-store/index.html"):
        answer = await page.request.get(f"{base}{path}")
        assert (answer.status, "html" in answer.headers["content-type"]) == (404, False)
    assert (await page.request.get(f"{base}/api/v1/tenants")).status == 401
