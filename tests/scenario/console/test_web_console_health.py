"""The health page: the figures of the alerts, slow kinds, and the last failures with their traces, for SUPERUSERs alone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenantry.runtime.health import figures
from tests.scenario.console.console_world import ConsoleWorld, Parsed, world_of_acme
from tests.scenario.rest_world import declare
from tests.support.prometheus import ALERTS

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
FAILED = {"annotations": {"tenantry.dev/traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with world_of_acme(tmp_path) as one:
        yield one


async def test_a_platform_at_rest_is_within_all_bounds(world: ConsoleWorld) -> None:
    page = await (await world("root")).get("/console/health")
    text = Parsed(page.text).text
    assert page.status_code == 200
    assert "All figures are within their bounds" in text
    assert "No operation that is recorded has failed." in text
    assert "/console/health" in Parsed((await (await world("root")).get("/console/")).text).links


async def test_what_is_wrong_and_the_trace_of_the_last_failure_are_shown(world: ConsoleWorld) -> None:
    platform = world.rest.platform
    spec = {"url": "file:///nowhere/at-all.git", "interval": "1h"}
    await declare(platform, "Source", "broken", spec, "tenantry-system")
    await declare(platform, "Environment", "twin", {"region": "here", "slug": "dev"}, "tenant-acme", **FAILED)
    await platform.runtime.idle(1)
    page = (await (await world("root")).get("/console/health")).text
    row = re.search(r'<tr id="check-SourceBroken">.*?</tr>', page, re.DOTALL)
    assert row is not None
    assert ("needs-you" in row[0], "<strong>1</strong>" in row[0]) == (True, True)
    assert TRACE in page


@pytest.mark.parametrize("user", ["acme-admin", "acme-viewer"])
async def test_a_tenants_people_see_neither_the_page_nor_its_link(world: ConsoleWorld, user: str) -> None:
    browser = await world(user)
    page = await browser.get("/console/health")
    assert (page.status_code, "check-" in page.text) == (403, False)
    assert "/console/health" not in Parsed((await browser.get("/console/")).text).links


async def test_each_figure_has_an_alert_with_the_same_bound(world: ConsoleWorld) -> None:
    measures = world.context.facade.measures
    assert measures is not None
    rules = dict(re.findall(r"- alert: Tenantry(\w+)\n\s+expr: (.*?)\n\s+for:", ALERTS.read_text(), re.DOTALL))
    found = list(figures(measures))
    assert len(found) == 9
    for each in found:
        bound = f"{1 - each.bound:.2f} *" if each.unit == "share" else f"> {each.bound:g}"
        assert bound in rules[each.alert], each.alert
