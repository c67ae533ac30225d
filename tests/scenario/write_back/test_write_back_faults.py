"""A write-back that fails at any command of git, or at any write of the store, leaves nothing half, and a sync mends the rest.

A commit tries every other command, another commit the others; with `TENANTRY_CAMPAIGN=full` it tries all.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.campaigns.scale import at_full
from tests.scenario.failing_git import MODES, FailingGit
from tests.scenario.git_world import ACME, DEV, REGION, World, git_world
from tests.scenario.repositories import Remote
from tests.scenario.rest_world import BASE
from tests.support.store_faults import Fault, FaultPoint, FaultyStore
from tests.support.turns import turn

pytestmark = pytest.mark.slow
STEP = at_full(1, otherwise=2)
FIRST = 1 + turn("commands of git", STEP)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "remote")
    made.commit({"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV})
    return made


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingGit:
    made = FailingGit.at(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


def declared(remote: Remote, name: str, path: str = "acme/dev.yaml") -> bool:
    """Return True if the branch's file holds that name."""
    return f'"{name}"' in remote.git("show", f"main:{path}")


async def is_as_declared(world: World) -> None:
    """After a sync the store is as the branch says, and the next one finds nothing to do."""
    await world.sync()
    assert not world.feed.last.problems and not world.feed.last.kept
    stored = await world.get("Environment", "dev", "tenant-acme")
    assert stored and declared(world.remote, stored["spec"]["displayName"])
    await world.sync()
    assert (world.feed.last.created, world.feed.last.changed, world.feed.last.pruned) == ((), (), ())
    assert world.remote.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    world.remote.git("fsck", "--strict")


async def commands_of(world: World, git: FailingGit, method: str, path: str, **options: Any) -> int:
    git.arm(0)
    answer = await world(method, path, **options)
    count = git.disarm()
    assert answer.is_success, answer.text
    return count


@pytest.mark.parametrize("mode", MODES)
async def test_an_edit_survives_a_failure_of_every_git_command(
    remote: Remote, tmp_path: Path, git: FailingGit, mode: str
) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        path = f"/environments/{await world.id_of('/environments', 'dev')}"
        commands = await commands_of(world, git, "PUT", path, json={"name": "First"})
        assert commands >= 8, "it asks, reads, writes and pushes"
        refused = 0
        for at in range(FIRST, commands + 1, STEP):
            name = f"Edit {at}"
            git.arm(at, mode)
            answer = await world("PUT", path, json={"name": name})
            git.disarm()
            assert answer.status_code in (200, 500, 503), answer.text
            refused += answer.status_code != 200
            assert declared(remote, name) or answer.status_code != 200, "it is answered once the remote has it"
            await is_as_declared(world)
        assert refused, "some of them cannot be got over"


@pytest.mark.parametrize("mode", MODES)
async def test_a_creation_and_a_deletion_survive_a_failure_of_every_git_command(
    remote: Remote, tmp_path: Path, git: FailingGit, mode: str
) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        for at in range(FIRST, 14, STEP):
            git.arm(at, mode)
            await world("POST", "/tenants", json={"name": "Beta", "slug": "beta"})
            git.disarm()
            await is_as_declared(world)
            there = "tenant-beta.yaml" in remote.git("ls-tree", "--name-only", "main")
            assert (await world.get("Tenant", "beta") is not None) == there
            if not there:
                assert (await world("POST", "/tenants", json={"name": "Beta", "slug": "beta"})).status_code == 201
            path = f"/tenants/{await world.id_of('/tenants', 'beta')}"
            git.arm(at, mode)
            await world("DELETE", path)
            git.disarm()
            await is_as_declared(world)
            there = "tenant-beta.yaml" in remote.git("ls-tree", "--name-only", "main")
            assert (await world.get("Tenant", "beta") is not None) == there
            if there:
                assert (await world("DELETE", path)).status_code == 202
                await world.sync()
            assert await world.get("Tenant", "beta") is None


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.TRANSIENT, Fault.TOO_MANY, Fault.ANSWER_LOST])
async def test_every_write_of_the_store_may_fail(remote: Remote, tmp_path: Path, fault: Fault) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        point = FaultPoint(0, fault)
        store = WritingStore(FaultyStore(world.platform.state.store, point), world.platform.state.cache)
        app = create_app(replace(world.platform.facade, store=store))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
            faulty = replace(world, http=http)
            path = f"/environments/{await world.id_of('/environments', 'dev')}"
            for at in range(1, 4):
                point.writes, point.at = 0, at
                answer = await faulty("PUT", path, json={"name": f"Edit {at}"})
                point.at = 0
                assert answer.status_code in (200, 503), answer.text
                assert declared(remote, f"Edit {at}"), "the commit came first"
                await is_as_declared(world)
            for at in range(1, 6):
                point.writes, point.at = 0, at
                await faulty("POST", "/tenants", json={"name": "Beta", "slug": "beta"})
                point.writes = 0
                if await world.get("Tenant", "beta"):
                    await faulty("DELETE", f"/tenants/{await world.id_of('/tenants', 'beta')}")
                point.at = 0
                await is_as_declared(world)
                there = "tenant-beta.yaml" in remote.git("ls-tree", "--name-only", "main")
                stored = await world.get("Tenant", "beta")
                assert (stored is not None) == there
                if stored:
                    assert "tenantry.dev/deletion-confirmed" not in stored["metadata"]["annotations"]
                    assert (await world("DELETE", f"/tenants/{await world.id_of('/tenants', 'beta')}")).status_code == 202
                    await world.sync()
