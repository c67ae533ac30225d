"""The console of `tenantry api` on a real API server, in a real browser."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
import yaml
from playwright.async_api import Page

from tests.bench.live import measured_apart
from tests.cluster.consoles import LIVE_MS, console, origin, password_of, proxied, signed_in
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Platform, kept, object_
from tests.scenario.console.browser_place import browsing, by_issuer
from tests.scenario.console.streams import STREAMS, end_under_streams, open_a_page_beside_many, sessions
from tests.scenario.identity_provider import provider_of, trusting
from tests.support.patience import BUSY

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
SHOWN_S = 5.0
CHANGED, CHANGES_S, CHANGING_S = 40, 200, 10.0
ON_SCREEN_S = 1.0
"""The gate of the design."""


def tenant_ready(kube: Kube, name: str) -> None:
    """Make a tenant. Once it is Ready, the operator has also made the bootstrap SUPERUSER."""
    kube.apply(object_("Tenant", name, displayName=name.title()))
    kube.ready(f"tenant/{name}")


async def test_a_person_sees_an_environment_become_ready(appearing: Platform, kube: Kube) -> None:
    with kept(appearing):
        await asyncio.to_thread(tenant_ready, kube, "globex")
        async with signed_in(appearing, kube, "environments") as page:
            environment = object_("Environment", "dev", "tenant-globex", region="home", displayName="A <b>title</b>")
            await asyncio.to_thread(kube.apply, environment)
            await page.get_by_text("A <b>title</b>").wait_for(timeout=LIVE_MS)
            await page.click("td.name a")
            await page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
            assert await page.inner_text("h1") == "A <b>title</b>"
            await page.click("text=Sign out")
            await page.goto(f"{console(appearing)}environments")
            assert "/console/sign-in" in page.url


async def test_a_person_plans_and_applies_what_the_api_server_lets_it(appearing: Platform, kube: Kube) -> None:
    with kept(appearing):
        await asyncio.to_thread(tenant_ready, kube, "initech")
        environment = object_("Environment", "dev", "tenant-initech", region="home", displayName="Typed")
        async with signed_in(appearing, kube, "plan") as page:
            await page.fill("#text", yaml.safe_dump(object_("Region", "elsewhere")))
            await page.click("text=Show the plan")
            await page.get_by_text("Refused").wait_for(timeout=LIVE_MS)
            assert "cannot create resource" in await page.inner_text("main"), "the console has no right that RBAC does not give"
            assert await page.locator("button[value=do]").count() == 0
            await page.fill("#text", yaml.safe_dump(environment))
            await page.click("text=Show the plan")
            await page.get_by_text("+ Environment/tenant-initech/dev").wait_for(timeout=LIVE_MS)
            await page.click("button[value=do]")
            await page.click("a:text('Environment/tenant-initech/dev')")
            await page.locator(".head .state.ready").wait_for(timeout=LIVE_MS)
            assert await page.inner_text("h1") == "Typed"
        made = await asyncio.to_thread(kube.get, "environment", "dev", "tenant-initech")
        assert made["metadata"]["annotations"]["tenantry.dev/requested-by"] == "admin"


async def test_the_page_health_shows_the_queue_of_the_operator_that_leads(platform: Platform, kube: Kube, tmp_path: Path) -> None:
    replica = platform.replica(tmp_path)
    with platform.leader() as operator:
        url = operator.metrics.removesuffix("/metrics")
        with replica.api(TENANTRY_CLUSTER__OPERATOR_METRICS=url):
            await asyncio.to_thread(tenant_ready, kube, "umbrella")
            async with signed_in(replica, kube, "health") as page:
                await page.locator("#check-QueueBehind").wait_for(timeout=LIVE_MS)
                assert "Queue" in await page.inner_text("table.counts thead")
                assert "No operator that leads answers" not in await page.inner_text("main")


async def test_a_person_signs_in_by_an_issuer(appearing: Platform, kube: Kube, tmp_path: Path) -> None:
    async with provider_of({"sub": "root@example.com", "role": "SUPERUSER"}) as provider, browsing() as page:
        replica = appearing.replica(tmp_path)
        with replica.api(**trusting(provider.url, tmp_path)):
            await by_issuer(page, f"{console(replica)}regions", "root@example.com")
            await page.get_by_text("home").first.wait_for(timeout=LIVE_MS)
            cookies = {each["name"]: each["value"] for each in await page.context.cookies()}
            token = next(value for name, value in cookies.items() if name.startswith("tenantry-console"))
            assert await asyncio.to_thread(answer_of, replica, {"Cookie": f"tenantry-console={token}"}) == 401
            bearer = {"Authorization": f"Bearer {token}"}
            assert await asyncio.to_thread(answer_of, replica, bearer) == 200
            await page.click("text=Sign out")
            await page.wait_for_url("**/console/sign-in")
            assert await asyncio.to_thread(answer_of, replica, bearer) == 401
            with appearing.replica(tmp_path).api(**trusting(provider.url, tmp_path)) as other:
                assert other != replica.api_url
                assert await asyncio.to_thread(answer_of, other, bearer) == 401, "the sign-out holds in every replica"


def answer_of(at: Platform | str, headers: dict[str, str]) -> int:
    """The status of a list of REST."""
    url = at if isinstance(at, str) else at.api_url
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/tenants", headers=headers), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code


async def outage(page: Page, base: str, begin: Callable[[], object], end: Callable[[], object]) -> float:
    """The seconds until a page shows the age of its data. Other pages show it too, until the outage is over."""
    banner = page.locator("#old")
    assert await banner.count() == 0
    await asyncio.to_thread(begin)
    gone = time.monotonic()
    await banner.wait_for(timeout=LIVE_MS)
    took = time.monotonic() - gone
    for path in ("", "environments", "operations", "environments/new"):
        began = time.monotonic()
        answer = await page.goto(f"{base}{path}")
        assert answer is not None and answer.status == 200, path
        assert time.monotonic() - began < SHOWN_S * BUSY
        assert await banner.count() == 1, path
    await page.goto(f"{base}environments")
    await asyncio.to_thread(end)
    await banner.wait_for(state="detached", timeout=LIVE_MS)
    return took


async def test_pages_show_the_age_of_their_data_while_the_api_server_is_away(
    appearing: Platform, own: Cluster, kube: Kube
) -> None:
    plane = own.control_plane
    assert plane is not None
    with kept(appearing):
        await asyncio.to_thread(tenant_ready, kube, "aviato")
    async with signed_in(appearing, kube, "environments") as page:
        killed = await outage(page, console(appearing), lambda: plane.running.pop("kube-apiserver").kill(), plane.start)
        process = plane.running["kube-apiserver"]
        frozen = await outage(
            page, console(appearing), lambda: process.send_signal(SIGSTOP), lambda: process.send_signal(SIGCONT)
        )
        print(f"the banner came {killed:.1f} s after a kill, {frozen:.1f} s after a freeze")
        assert max(killed, frozen) <= SHOWN_S * BUSY


async def test_a_page_opens_in_time_beside_many_tabs(appearing: Platform, kube: Kube) -> None:
    with kept(appearing):
        await asyncio.to_thread(tenant_ready, kube, "hooli")
        async with signed_in(appearing, kube, "regions") as page:
            await page.locator("td.name a").first.wait_for(timeout=LIVE_MS)
            await open_a_page_beside_many(page, console(appearing))


async def test_a_change_by_kubectl_is_on_the_pages_of_fifty_people(appearing: Platform, kube: Kube, own: Cluster) -> None:
    """At a rate that an operator, which writes an Operation for each change, does not reach on a small machine."""
    names = [f"e{number}" for number in range(CHANGED)]
    base = origin(appearing.api_url)
    with kept(appearing):
        await asyncio.to_thread(tenant_ready, kube, "raviga")
        cookies = await sessions(base, await asyncio.to_thread(password_of, kube), STREAMS)
    await asyncio.to_thread(kube.apply, *(object_("Environment", each, "tenant-raviga", region="home") for each in names))
    with proxied(own) as api_server:
        environments = f"{api_server}/apis/tenantry.dev/v1alpha1/namespaces/tenant-raviga/environments"
        changes = {
            "method": "PATCH",
            "addresses": [f"{environments}/{each}" for each in names],
            "headers": {"Content-Type": "application/merge-patch+json"},
            "body": '{"spec": {"displayName": "TITLE"}}',
        }
        asked = {"base": appearing.api_url, "host": base.removeprefix("http://"), "changes": changes, "mark": "change-"}
        found = await measured_apart({**asked, "cookies": cookies, "rate": CHANGES_S, "seconds": CHANGING_S})
    print(f"p99 {found['p99']:.2f} s, longest {found['longest']:.2f} s, at {found['rate']:.0f} changes/s")
    assert found["delivered"] == found["expected"]
    assert found["p99"] <= ON_SCREEN_S * BUSY


async def test_the_api_ends_in_time_although_fifty_people_follow_a_page(appearing: Platform, kube: Kube, tmp_path: Path) -> None:
    replica = appearing.replica(tmp_path)
    with kept(appearing), ExitStack() as running:
        await asyncio.to_thread(tenant_ready, kube, "endframe")
        password = await asyncio.to_thread(password_of, kube)
        base = origin(await asyncio.to_thread(running.enter_context, replica.api()))
        await end_under_streams(base, password, "/regions", "home", running.close)
