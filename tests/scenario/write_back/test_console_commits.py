"""Each button of the console that commits to a source that takes writes says so, and where; the others do not."""

from __future__ import annotations

import html
import re
from functools import partial

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.console.app import add_console
from tests.scenario.console.console_world import BASE, FORM, csrf_of
from tests.scenario.repositories import Remote
from tests.scenario.write_back.written_source import WriteContext, at, follows, remote
from tests.support.published_packages import package

__all__ = ["at", "remote"]
HOME = "tenant-acme"
QA = """apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: qa, namespace: tenant-acme}
spec: {region: eu}
"""


def button(page: httpx.Response) -> str:
    """The words of the button that carries the plan out."""
    found = re.findall(
        r'<button type="submit"(?! form)(?:(?!value="plan")[^>])*class="(?:main|danger)">(.*?)</button>', page.text
    )
    assert found, page.text
    return html.unescape(re.sub("<[^>]+>", "", found[-1]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "mode", "place"),
    [
        ("tenantry-system", "Branch", "main of source platform"),
        ("tenantry-system", "Review", "a branch for review of source platform"),
        ("tenantry-system", "Off", ""),
    ],
)
async def test_a_button_that_commits_says_where(at: WriteContext, remote: Remote, where: str, mode: str, place: str) -> None:
    await follows(at, "platform", where, branch="main", writeBack={"mode": mode})
    platform = at.world.platform
    held = await at.world.get("Environment", "dev", HOME)
    assert held is not None
    told, here = f"and commit to {place}", f"/console/environments/{held['metadata']['uid']}"
    app = create_app(platform.facade, partial(add_console, codes=platform.codes))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as browser:
        await browser.get("/console/enter", params={"code": platform.one_time_code()})
        assert "commit" not in button(await browser.get(f"{here}/reconcile")), "an annotation is no declaration"
        csrf = csrf_of((await browser.get("/console/")).text)
        plan = await browser.post("/console/plan", data={"csrf": csrf, "text": QA}, headers=FORM)
        shown = await browser.post(f"{here}/publish", data={"csrf": csrf}, headers=FORM, **package("1.0.0"))
        new = {"csrf": csrf, "name": "QA", "slug": "qa", "region": "eu", "tenantId": "acme", "act": "plan"}
        made = await browser.post("/console/environments/new", data=new, headers=FORM)
        pages = {"plan": plan, "publish": shown, "new": made}
        if place:  # otherwise the file is to be changed, and there is no button
            pages |= {verb: await browser.get(f"{here}/{verb}") for verb in ("delete", "suspend")}
            form = {"csrf": csrf, "generation": "1", "name": "Dev 2", "slug": "dev", "act": "plan"}
            pages["edit"] = await browser.post(f"{here}/edit", data=form, headers=FORM)
        said = {name: button(page).endswith(told) if place else "commit" in button(page) for name, page in pages.items()}
        assert said == dict.fromkeys(pages, bool(place))
