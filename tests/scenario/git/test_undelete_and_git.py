"""Undeleted objects, and the files that declared them before: a revert takes them up again, with the ids that they have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenantry.adapters.local.folders import EngineFolders
from tenantry.cli.clients.opening import console_of
from tenantry.model.resource import Ref
from tests.scenario.git.source_world import World, ready, reason, source_world
from tests.scenario.git_world import ACME, API, DEV, REGION
from tests.scenario.repositories import Remote

ENVIRONMENT = Ref("Environment", "tenant-acme", "dev")
PROVIDER = f"""{API}kind: IdentityProvider
metadata: {{name: sso, namespace: tenant-acme}}
spec: {{environment: dev, issuerUrl: "https://sso.example", clientId: dev, active: false}}
"""
OWN_ID = "7d2b7b0e-6b0c-4c9b-9a4e-0d8a3f6f1c11"
WITH_ID = DEV.replace("spec:", f"spec:\n  id: {OWN_ID}", 1)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote.at(tmp_path / "platform.git")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with source_world(tmp_path / "state") as made:
        yield made


async def undeleted(world: World, remote: Remote, dev: str) -> str:
    """Dev is declared by the repository, leaves it, and is undeleted by the command line. Its id."""
    remote.commit({"acme.yaml": ACME, "region.yaml": REGION, "dev.yaml": dev, "sso.yaml": PROVIDER})
    await world.source(f"file://{remote.folder}")
    assert reason(await world.synced()) == "Succeeded"
    there = await world.get("Environment", "dev", "tenant-acme")
    assert there is not None
    id_ = str(there["spec"].get("id") or there["metadata"]["uid"])
    folder = EngineFolders(world.platform.state.folder).folder(id_)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)  # an engine that was never used leaves no archive
    remote.commit({"dev.yaml": None, "sso.yaml": None})
    await world.synced()
    await world.until_gone(ENVIRONMENT)
    await console_of(world.platform).restore(id_, "", "")
    await world.platform.runtime.idle(1)
    return id_


@pytest.mark.slow
@pytest.mark.parametrize("dev", [DEV, WITH_ID], ids=["without an id", "with its id"])
async def test_the_old_declaration_takes_up_what_was_undeleted(world: World, remote: Remote, dev: str) -> None:
    id_ = await undeleted(world, remote, dev)
    remote.commit({"dev.yaml": dev, "sso.yaml": PROVIDER, "acme.yaml": ACME.replace("Acme   #", "Acme Ltd   #")})
    status = await world.synced()
    assert (reason(status), status.get("problems", [])) == ("Succeeded", [])
    there = await world.get("Environment", "dev", "tenant-acme")
    assert there is not None
    assert there["spec"]["id"] == id_
    assert there["metadata"]["labels"]["tenantry.dev/source"] == "tenantry-system.platform"
    assert ready(there["status"])["status"] == "True"
    acme = await world.get("Tenant", "acme")
    assert acme is not None
    assert acme["spec"]["displayName"] == "Acme Ltd"


@pytest.mark.slow
async def test_an_id_that_was_declared_for_what_was_undeleted_may_leave_its_file_again(world: World, remote: Remote) -> None:
    id_ = await undeleted(world, remote, DEV)
    for dev in (DEV.replace("spec:", f"spec:\n  id: {id_}", 1), DEV):
        remote.commit({"dev.yaml": dev})
        assert reason(await world.synced()) == "Succeeded"
    there = await world.get("Environment", "dev", "tenant-acme")
    assert there is not None
    assert there["spec"]["id"] == id_


@pytest.mark.slow
async def test_an_object_s_own_uid_may_be_declared_as_its_id(world: World, remote: Remote) -> None:
    remote.commit({"acme.yaml": ACME, "region.yaml": REGION, "dev.yaml": DEV})
    await world.source(f"file://{remote.folder}")
    await world.synced()
    there = await world.get("Environment", "dev", "tenant-acme")
    assert there is not None
    uid = there["metadata"]["uid"]
    remote.commit({"dev.yaml": DEV.replace("spec:", f"spec:\n  id: {uid}", 1)})
    status = await world.synced()
    assert (reason(status), status.get("problems", [])) == ("Succeeded", [])


@pytest.mark.slow
async def test_another_id_is_refused_for_its_object_only(world: World, remote: Remote) -> None:
    id_ = await undeleted(world, remote, DEV)
    remote.commit({"dev.yaml": WITH_ID, "acme.yaml": ACME.replace("Acme   #", "Acme Ltd   #")})
    status = await world.synced()
    assert [each.partition(" ")[0] for each in status["problems"]] == ["dev.yaml:5:"]
    assert "spec.id: Invalid value" in status["problems"][0]
    assert ready(status)["status"] == "False"
    there, acme = await world.get("Environment", "dev", "tenant-acme"), await world.get("Tenant", "acme")
    assert there is not None and acme is not None
    assert (there["spec"]["id"], acme["spec"]["displayName"]) == (id_, "Acme Ltd")
