"""The numbers of a whole platform: no object has a series of its own, and nothing is wrong for Prometheus."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.scenario.rest_world import World, declare, numbers, world_in
from tests.scenario.tools import lacking
from tests.support.published_packages import CRM, NEXT

BY_ROUTE = ("tenantry_requests_", "tenantry_request_seconds_")
"""A route has its series from its first request on."""


def series(world: World) -> set[tuple[str, ...]]:
    """Return the name and the labels of each series, without those of routes."""
    return {
        (sample.name, *sorted(f"{name}={value}" for name, value in sample.labels.items()))
        for family in text_string_to_metric_families(numbers(world))
        for sample in family.samples
        if not sample.name.startswith(BY_ROUTE)
    }


@pytest.mark.slow
async def test_tenants_of_all_conditions_add_no_series_to_an_empty_platform(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.platform.converged()
        empty = series(world)
        await declare(world.platform, "Source", "broken", {"url": "file:///nowhere/x.git", "interval": "1h"}, "tenantry-system")
        for number in range(10):
            await declare(world.platform, "Tenant", f"acme-{number}", {"quota": {"packageStorage": "1Ki"}})
        await world.platform.converged()
        for number in range(10):
            namespace = f"tenant-acme-{number}"
            await declare(world.platform, "Environment", "dev", {"region": "here"}, namespace)
            await declare(world.platform, "Environment", "twin", {"region": "here", "slug": "dev"}, namespace)
            await declare(world.platform, "Environment", "held", {"region": "here", "suspend": True}, namespace)
            await declare(world.platform, "Environment", "lost", {"region": "nowhere"}, namespace)
        await world.platform.runtime.idle(1)
        for tenant in (await world("root", "GET", "/tenants")).json():
            for raw, code in ((CRM, 200), (NEXT, 413)):
                path = f"/packages/{hashlib.sha256(raw).hexdigest()}?tenantId={tenant['id']}"
                assert (await world("root", "PUT", path, content=raw)).status_code == code
        assert 'tenantry_quota_refused_total{quota="packageStorage"} 10.0' in numbers(world)
        assert (series(world) - empty, empty - series(world)) == (set(), set())


async def test_prometheus_finds_nothing_wrong_with_the_numbers_of_a_platform(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        lacking("promtool is not installed")
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        told = numbers(world)
    command = ("promtool", "check", "metrics")
    checked = await asyncio.to_thread(subprocess.run, command, input=told, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
