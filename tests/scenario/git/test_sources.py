"""Sources on the embedded host: a repository becomes what runs, by a declared object."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenantry.model.resource import Ref, held_of
from tenantry.model.verdicts import Forbidden
from tests.scenario.git.source_world import SYSTEM, World, ready, reason, source_world
from tests.scenario.git_world import ACME, API, DEV, REGION
from tests.scenario.repositories import ADA, Remote

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
    await world.until_gone(Ref("Environment", "tenant-acme", "dev"))


@pytest.mark.slow
async def test_a_region_is_not_deleted_beneath_an_environment_and_goes_with_the_last(
    world: World, remote: Remote, url: str
) -> None:
    await world.source(url)
    await world.synced()
    region = await world.get("Region", "eu")
    assert region is not None
    with pytest.raises(Forbidden, match="1 environment still uses"):
        await world.platform.state.writing.delete(held_of(region))
    remote.commit({"a/dev.yaml": None, "b/acme.yaml": None, "c/region.yaml": None, "d/beta.yaml": ACME.replace("acme", "beta")})
    assert reason(await world.synced()) == "Succeeded"
    await world.until_gone(Ref("Region", "", "eu"))
    assert await world.get("Tenant", "acme") is None


async def test_a_tenant_is_not_deleted_while_an_environment_is_protected(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    await world.synced()
    dev = Ref("Environment", "tenant-acme", "dev")
    await world.edit(dev, deletionProtection=True)
    await world.platform.runtime.idle(1)
    acme = await world.get("Tenant", "acme")
    assert acme is not None and acme["status"]["protectedEnvironments"] == 1
    with pytest.raises(Forbidden, match="set its spec"):
        await world.platform.state.writing.delete(held_of(acme))
    await world.edit(dev, deletionProtection=False)
    await world.platform.runtime.idle(1)
    acme = await world.get("Tenant", "acme")
    assert acme is not None
    await world.platform.state.writing.delete(held_of(acme))
    await world.until_gone(Ref("Tenant", "", "acme"))


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


@pytest.mark.slow
async def test_what_holds_data_or_is_more_than_the_budget_waits_for_an_approval(world: World, remote: Remote, url: str) -> None:
    await world.source(url, prune={"objects": 0, "percent": 10})
    await world.until("platform", SYSTEM)
    remote.commit({"a/dev.yaml": None, "c/region.yaml": None})
    status = await world.synced()
    assert reason(status) == "PruneHeld"
    assert {each["object"] for each in status["kept"]} == {"Environment/tenant-acme/dev", "Region/eu"}
    assert status["settledRevision"] != status["revision"]
    await world.edit(PLATFORM, {"tenantry.dev/prune-approved": "others"})
    assert reason(await world.synced()) == "PruneHeld"
    await world.edit(PLATFORM, {"tenantry.dev/prune-approved": status["approval"]})
    status = await world.until("platform", SYSTEM, lambda told: "approval" not in told)
    assert (reason(status), status["kept"], status["objects"]) == ("Succeeded", [], 1)
    await world.until_gone(Ref("Region", "", "eu"))


@pytest.mark.slow
async def test_a_suspended_one_applies_nothing_until_it_is_resumed(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    before = (await world.until("platform", SYSTEM))["revision"]
    await world.edit(PLATFORM, suspend=True)
    remote.commit({"a/dev.yaml": None})
    await world.edit(PLATFORM, {"tenantry.dev/reconcile-requested-at": "while it is suspended"})
    await world.platform.runtime.idle(1)
    source = await world.get("Source", "platform", SYSTEM)
    assert source is not None
    assert source["status"]["revision"] == before
    assert world.platform.fetching.sources.look(PLATFORM, source["metadata"]["uid"]) is None
    await world.edit(PLATFORM, suspend=False)
    await world.until("platform", SYSTEM, lambda told: told["revision"] != before)
    await world.until_gone(Ref("Environment", "tenant-acme", "dev"))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["Retain", "Prune"])
async def test_a_deleted_one_leaves_its_objects_or_takes_them_along(world: World, url: str, policy: str) -> None:
    await world.source(url, deletionPolicy=policy)
    await world.until("platform", SYSTEM)
    source = await world.platform.state.writing.get(PLATFORM)
    (copy,) = (world.platform.state.folder / "sources").iterdir()
    await world.platform.state.writing.delete(held_of(source)._replace(version=""))
    await world.until_gone(PLATFORM)
    assert not copy.exists()
    if policy == "Prune":
        await world.until_gone(Ref("Region", "", "eu"))
        await world.until_gone(Ref("Tenant", "", "acme"))
    else:
        region = await world.get("Region", "eu")
        assert region is not None
        assert "tenantry.dev/source" not in region["metadata"].get("labels", {})
        assert "tenantry.dev/source-file" not in region["metadata"]["annotations"]


async def test_the_status_says_what_was_released(world: World, remote: Remote, url: str) -> None:
    region = f"{API}kind: Region\nmetadata: {{name: eu, annotations: {{tenantry.dev/prune: disabled}}}}\nspec: {{}}\n"
    remote.commit({"c/region.yaml": region})
    await world.source(url)
    await world.until("platform", SYSTEM)
    remote.commit({"c/region.yaml": None})
    status = await world.synced()
    assert (reason(status), status["released"], status["kept"]) == ("Succeeded", ["Region/eu"], [])
    assert (await world.synced())["released"] == ["Region/eu"], "a sync that releases nothing does not forget it"


@pytest.mark.slow
async def test_what_another_source_has_stays_there(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    await world.until("platform", SYSTEM)
    await world.source(url, "other", path="c")
    status = await world.until("other", SYSTEM)
    assert (reason(status), status["objects"]) == ("SourceBroken", 0)
    assert "Region/eu belongs to the source tenantry-system.platform (c/region.yaml:1)" in status["problems"][0]


@pytest.mark.slow
async def test_a_restart_goes_on_and_notices_what_was_rewritten_meanwhile(tmp_path: Path, remote: Remote, url: str) -> None:
    async with source_world(tmp_path / "state") as world:
        await world.source(url)
        await world.until("platform", SYSTEM)
    shutil.rmtree(tmp_path / "state" / "sources")  # only a cache
    remote.commit({"a/dev.yaml": None}, parent="none")
    async with source_world(tmp_path / "state") as world:
        status = await world.until("platform", SYSTEM, lambda told: reason(told) == "PruneHeld")
        assert "is not in the history of" in status["kept"][0]["reason"]
        assert await world.get("Environment", "dev", "tenant-acme") is not None


async def test_while_the_remote_is_away_all_stays_and_it_says_since_when(world: World, remote: Remote, url: str) -> None:
    await world.source(url)
    before = (await world.until("platform", SYSTEM))["revision"]
    away = remote.folder.rename(remote.folder.with_name("away.git"))
    status = await world.synced()
    assert (reason(status), status["revision"], status["objects"]) == ("RepositoryNotFound", before, 3)
    assert {each["type"] for each in status["conditions"] if each["status"] == "True"} == {"Reconciling"}
    away.rename(remote.folder)
    assert reason(await world.synced()) == "Succeeded"


@pytest.mark.slow
async def test_only_commits_that_are_signed_by_its_keys_are_taken(world: World, remote: Remote, url: str) -> None:
    key = "ann@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE6dv0hF8FZl5vE3s0kXJq0fQ3GmG3J1pRvmVnTTd2Yo\n"
    await world.source(url, verify={"keys": key})
    status = await world.until("platform", SYSTEM)
    assert reason(status) == "SourceBroken"
    assert "is not applied: it is not signed" in ready(status)["message"]
    assert await world.get("Region", "eu") is None


async def test_its_secret_must_be_there_and_be_for_sources(world: World, url: str) -> None:
    await world.source(url, credentials={"secretRef": {"name": "git"}})
    assert reason(await world.until("platform", SYSTEM)) == "SecretMissing"
    await world.secret("git", SYSTEM, "user", password="token")
    assert reason(await world.until("platform", SYSTEM, lambda told: reason(told) != "SecretMissing")) == "SecretNotLabelled"


async def test_a_plan_follows_nothing_anew_and_tells_what_would_be_followed(world: World, url: str, tmp_path: Path) -> None:
    await world.source(url)
    await world.until("platform", SYSTEM)
    folder = tmp_path / "folder"
    folder.mkdir()
    declared = f"{API}kind: Source\nmetadata: {{name: more, namespace: {SYSTEM}}}\nspec: {{url: '{url}', path: c}}\n"
    (folder / "more.yaml").write_text(declared)
    planned = await world.platform.plan_source(folder, "default")
    assert [str(change) for _, change in planned.effects] == [f"source more: follow {url}"]
    assert planned.verdicts == ()


@pytest.mark.slow
async def test_one_that_waits_is_ready_once_its_objects_are_and_not_for_itself(world: World, remote: Remote, url: str) -> None:
    spec = f"{{url: '{url}', branch: main, interval: 1h, wait: true}}"
    own = f"{API}kind: Source\nmetadata: {{name: platform, namespace: {SYSTEM}}}\nspec: {spec}\n"
    remote.commit({"own.yaml": own, "c/region.yaml": None})
    await world.source(url, wait=True)
    # Before its first pass, the Tenant is pending, too.
    waits = await world.until("platform", SYSTEM, lambda told: ready(told)["message"].startswith("Environment/tenant-acme/dev: "))
    assert reason(waits) == "ObjectsNotReady"
    remote.commit({"c/region.yaml": REGION})
    await world.synced()
    status = await world.until("platform", SYSTEM, lambda told: reason(told) == "Succeeded")
    assert status["objects"] == 4
