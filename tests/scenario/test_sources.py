"""Sources on the embedded host: a repository becomes what runs, by a declared object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenantry.model.resource import Ref
from tests.scenario.git_world import ACME, API, DEV, REGION
from tests.scenario.repositories import ADA, Remote
from tests.scenario.source_world import SYSTEM, World, ready, reason, source_world

PLATFORM = Ref("Source", SYSTEM, "platform")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "platform.git")
    made.commit({"a/dev.yaml": DEV, "b/acme.yaml": ACME, "c/region.yaml": REGION})
    return made


@pytest.fixture
def url(remote: Remote) -> str:
    return f"file://{remote.folder}"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with source_world(tmp_path / "state") as made:
        yield made


async def test_what_the_branch_declares_is_applied_and_told(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    status = await world.until("platform", SYSTEM)
    assert reason(status) == "Succeeded", status
    tip = remote.git("rev-parse", "main")
    assert (status["revision"], status["documents"], status["settledRevision"]) == (tip, 3, tip)
    assert (await world.synced())["objects"] == 3
    dev = await world.get("Environment", "dev", "tenant-acme")
    assert dev is not None
    assert dev["metadata"]["labels"]["tenantry.dev/source"] == "tenantry-system.platform"
    assert dev["metadata"]["annotations"]["tenantry.dev/requested-by"] == f"git:{ADA}"
    assert ready(dev["status"])["status"] == "True"


async def test_a_push_is_applied_and_what_left_is_pruned(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    await world.until("platform", SYSTEM)
    remote.commit({"a/dev.yaml": None, "b/acme.yaml": ACME.replace("Acme   #", "Acme Ltd   #")})
    status = await world.synced()
    assert (reason(status), status["objects"]) == ("Succeeded", 2)
    acme = await world.get("Tenant", "acme")
    assert acme is not None
    assert acme["spec"]["displayName"] == "Acme Ltd"
    assert await world.get("Environment", "dev", "tenant-acme") is None


async def test_of_a_broken_commit_nothing_is_applied_and_file_and_line_are_told(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    good = (await world.until("platform", SYSTEM))["revision"]
    remote.commit({"a/dev.yaml": None, "c/region.yaml": f"{API}kind: Region\nmetadata: {{name: eu}}\nspec:\n  sizes: none\n"})
    status = await world.synced()
    assert reason(status) == "SourceBroken"
    assert ready(status)["message"].startswith("c/region.yaml:5: spec.sizes: ")
    assert status["problems"][0].startswith("c/region.yaml:5: ")
    assert status["revision"] == good
    assert {each["type"] for each in status["conditions"] if each["status"] == "True"} == {"Stalled"}
    assert await world.get("Environment", "dev", "tenant-acme") is not None
