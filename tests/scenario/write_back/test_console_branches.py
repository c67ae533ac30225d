"""The page of plans takes a branch of a Source: its lines are those of `tenantry plan`, and nothing is written."""

from __future__ import annotations

import html
import re
from functools import partial

import httpx
import pytest

from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.api.app import create_app
from tenantry.console.app import add_console
from tests.scenario.console.console_world import BASE, FORM, csrf_of
from tests.scenario.git_world import DEV
from tests.scenario.repositories import Remote
from tests.scenario.write_back.written_source import WriteContext, at, follows, remote

__all__ = ["at", "remote"]
SOURCE = "tenantry-system.platform"


def lines(page: httpx.Response) -> set[str]:
    found = re.findall(r'<ul class="lines">(.*?)</ul>', page.text, re.DOTALL)
    return {html.unescape(line).strip() for part in found for line in re.findall(r"<li[^>]*>(.*?)</li>", part)}


@pytest.mark.slow
async def test_a_branch_of_a_source_is_planned_as_by_the_command_line(at: WriteContext, remote: Remote) -> None:
    await follows(at)
    remote.git("update-ref", "refs/heads/topic", "refs/heads/main")
    remote.commit({"p/dev.yaml": None, "p/qa.yaml": DEV.replace(": dev", ": qa")}, branch="topic")
    platform = at.world.platform
    app = create_app(platform.facade, partial(add_console, codes=platform.codes))
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as browser:
        await browser.get("/console/enter", params={"code": platform.one_time_code()})
        csrf = csrf_of((await browser.get("/console/plan")).text)
        await platform.converged()
        before = platform.state.store.version

        async def shown(source: str, branch: str) -> httpx.Response:
            form = {"csrf": csrf, "source": source, "branch": branch, "act": "plan"}
            return await browser.post("/console/plan", data=form, headers=FORM)

        page = await shown(SOURCE, "topic")
        planned = await platform.plan_source(parse_git_url(f"git+{at.url()}@topic:p"), SOURCE)
        assert planned.steps
        assert lines(page) == {str(step).strip() for step in planned.steps}, page.text
        assert 'value="do"' not in page.text, "a branch is merged, not applied from a page"
        refusals = {
            ("", "topic"): "name one of the sources",
            ("tenant-umbra.none", "topic"): "name one of the sources",
            (SOURCE, "none"): "none",
            (SOURCE, "../main"): "must be the name of a branch",
        }
        for (source, branch), told in refusals.items():
            refused = await shown(source, branch)
            assert refused.status_code == 400, (source, branch)
            assert told in html.unescape(refused.text), (source, branch)
            assert f'value="{branch}"' in refused.text, "what was typed stays"
        assert platform.state.store.version == before
        assert not [each for each in platform.facade.uploads.folder.iterdir() if each.name.startswith(("plan-", "branch-"))]
