"""C5: for each edit of the plan suite, the plan page shows the lines of `tenantry plan`, its verdicts and what is kept."""

from __future__ import annotations

import html
import re
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml

from tenantry.api.app import create_app
from tenantry.cli.clients.planning_over_rest import read_source
from tenantry.console.app import add_console
from tenantry.runtime.planning.planned import Planned
from tests.crash.campaign import copy_of
from tests.scenario.console.console_world import BASE, FORM, csrf_of
from tests.support.planned_edits import EDITS
from tests.support.planned_platform import SOURCE_NAME, base, edited, platform_on, write

__all__ = ["base"]
REFUSED = "a document that is refused"
pytestmark = pytest.mark.slow


def told(page: str, around: str = r'<ul class="lines">(.*?)</ul>') -> list[list[str]]:
    """The lines of each list of a page."""
    found = re.findall(around, page, re.DOTALL)
    return [[html.unescape(line) for line in re.findall(r"<li[^>]*>(.*?)</li>", each, re.DOTALL)] for each in found]


def assert_same(page: httpx.Response, expected: Planned) -> None:
    lines = [str(step) for step in expected.steps]
    groups = told(page.text)
    assert sorted(line for group in groups for line in group) == sorted(lines)
    for group in groups:
        assert group == [line for line in lines if line in group], "each group is in the order of the plan"
    losing = html.unescape("\n".join(re.findall(r'<li class="mono lost">(.*?)</li>', page.text, re.DOTALL)))
    assert [line for line in lines if line.startswith("-") and line not in losing] == []
    text = html.unescape(re.sub(r"<[^>]+>", "", page.text))
    for ref, verdict in expected.verdicts:
        assert f"! {ref} {verdict.reason}" in text
    for kept in expected.kept:
        assert f"= {kept.held.ref} {kept.reason}" in text


@pytest.mark.parametrize(
    "edits", [each for name, each in EDITS.items() if name != REFUSED], ids=[e for e in EDITS if e != REFUSED]
)
async def test_the_page_shows_what_the_command_prints(base: Path, tmp_path: Path, edits: dict[str, str | None]) -> None:
    source = write(tmp_path / "source", edited(edits))
    (tmp_path / "work").mkdir()
    tree, _, _ = await read_source(str(source), tmp_path / "work")
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        expected = await platform.plan_source(source, SOURCE_NAME)
        app = create_app(platform.facade, partial(add_console, codes=platform.codes))
        transport = httpx.ASGITransport(app, raise_app_exceptions=True, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as browser:
            entered = await browser.get("/console/enter", params={"code": platform.one_time_code()})
            csrf = csrf_of((await browser.get(entered.headers["location"])).text)
            form = {"csrf": csrf, "source": SOURCE_NAME, "text": yaml.safe_dump_all([each.document for each in tree.documents])}
            page = await browser.post("/console/plan", data=form, headers=FORM)
    assert page.status_code == 200
    assert_same(page, expected)
    assert 'value="do"' not in page.text, "a source carries its own plans out"
