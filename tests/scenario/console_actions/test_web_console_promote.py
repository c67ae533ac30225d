"""The page of an environment: versions side by side, promotion by a plan, and who may do what."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.bootstrap.embedded import Platform
from tenantry.console.app import add_console
from tenantry.model.resource import Ref
from tests.crash.campaign import copy_of
from tests.scenario.console.console_world import BASE, FORM, csrf_of
from tests.support.planned_platform import base, platform_on

__all__ = ["base"]


@asynccontextmanager
async def browser_on(platform: Platform) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of the local SUPERUSER."""
    app = create_app(platform.facade, partial(add_console, codes=platform.codes))
    transport = httpx.ASGITransport(app, raise_app_exceptions=True, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as browser:
        await browser.get("/console/enter", params={"code": platform.one_time_code()})
        yield browser


@pytest.fixture
async def platform(base: Path, tmp_path: Path) -> AsyncIterator[Platform]:
    async with platform_on(copy_of(base, tmp_path / "state")) as one:
        yield one


def page_of(platform: Platform, kind: str, name: str) -> str:
    document = platform.state.cache.document(Ref(kind, "tenant-acme", name))
    assert document is not None
    return f"/console/{kind.lower()}s/{document['metadata']['uid']}"


def row_of(page: httpx.Response, app: str) -> str:
    """The text of an app's row, and the addresses in it."""
    return html.unescape(page.text.partition(f'<tr id="app-{app}">')[2].partition("</tr>")[0])


def text_of(page: httpx.Response) -> str:
    return html.unescape(re.findall(r"<textarea [^>]*>\n?(.*?)</textarea>", page.text, re.DOTALL)[0])


async def plan_of(browser: httpx.AsyncClient, page: httpx.Response, **more: str) -> httpx.Response:
    csrf = csrf_of(page.text)
    hidden = dict(re.findall(r'<input type="hidden" name="(plan|lines)" value="([^"]*)"', page.text))
    sent = {"csrf": csrf, "text": text_of(page), **{name: html.unescape(value) for name, value in hidden.items()}}
    return await browser.post("/console/plan", data={**sent, "act": "plan", **more}, headers=FORM)


@pytest.mark.slow
async def test_a_version_is_promoted_by_its_plan(platform: Platform) -> None:
    async with browser_on(platform) as browser:
        spare = page_of(platform, "Environment", "spare")
        row = row_of(await browser.get(spare), "crm")
        assert "not installed" in row
        addresses = dict(re.findall(r'href="([^"]*)">Promote ([\d.]+)</a>', row))
        promote = next(address for address, version in addresses.items() if version == "1.1.0")
        page = await browser.get(promote)
        assert text_of(page).split("spec:")[1].split() == ["environment:", "spare", "app:", "crm", "version:", "1.1.0"]
        planned = await plan_of(browser, page)
        assert "+ App/tenant-acme/spare.crm" in planned.text
        assert "crm: install 1.1.0" in planned.text
        done = await plan_of(browser, planned, act="do")
        assert '<span class="mono">created</span>' in done.text
        await platform.converged()
        row = row_of(await browser.get(spare), "crm")
        assert re.findall(r'class="mono">([\d.]+)</td>', row) == ["1.1.0"]


async def test_what_a_source_declares_is_promoted_there(platform: Platform) -> None:
    async with browser_on(platform) as browser:
        dev = page_of(platform, "Environment", "dev")
        row = row_of(await browser.get(dev), "crm")
        assert "Promote 1.1.0</a>" not in row
        greyed = re.findall(r'<button [^>]*disabled title="([^"]*)">Promote 1\.1\.0</button>', row)
        assert greyed
        assert re.fullmatch(r"App dev\.crm is declared in .+\.yaml.*: change it there", greyed[0])
        assert row.count(f'<li class="quiet">{greyed[0]}</li>') == 1, "people who cannot hover read it too"


async def test_an_app_offers_its_other_versions_and_an_object_its_declaration(platform: Platform) -> None:
    async with browser_on(platform) as browser:
        shown = await browser.get(page_of(platform, "App", "dev.crm"))
        edit = re.findall(r'href="([^"]*)">Edit as YAML</a>', shown.text)
        page = await browser.get(html.unescape(edit[0]))
        assert "kind: App" in text_of(page)
        assert "tenantry.dev/source" not in text_of(page)
        assert "Nothing changes" in (await plan_of(browser, page)).text


async def test_an_environment_says_who_may_do_what(platform: Platform) -> None:
    async with browser_on(platform) as browser:
        shown = (await browser.get(page_of(platform, "Environment", "dev"))).text.partition("Who may do what")[2]
        people = re.findall(r'<tr id="who-.*?<a [^>]*>(.*?)</a>.*?class="wide">(.*?)</td>', shown, re.DOTALL)
        assert dict(people) == {
            "Bootstrap administrator": "everything on this platform",
            "vera": "read in this tenant",
            "ann": "the default role of each app",
            "corp": "signs people in; the default role of each app",
        }


async def test_absent_objects_are_not_found_on_the_page_of_plans(platform: Platform) -> None:
    async with browser_on(platform) as browser:
        for query in ("edit=apps/none", "edit=none/none", "edit=", "app=none", "app=none&environment=x&version=1"):
            assert (await browser.get(f"/console/plan?{query}")).status_code == 404, query
