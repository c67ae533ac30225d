"""Each blocker of a deletion names a command. It works: the deletion ends, or the command shows what else is in the way."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import DELETION_CONFIRMED, FINALIZER, Document, Held, Ref, held_of
from tenantry.model.verdicts import Forbidden, NotFound
from tests.scenario.cli import called
from tests.support.planned_platform import BASE, platform_on, write

REGION, TENANT, DEV = Ref("Region", "", "eu"), Ref("Tenant", "", "acme"), Ref("Environment", "tenant-acme", "dev")
NAMESPACE = Ref("Namespace", "", "tenant-acme")
PACKAGE, ANN = Ref("Package", "tenant-acme", "crm-1-0-0"), Ref("Identity", "tenant-acme", "ann")
PARTS = ("region", "tenant", "dev", "1.0.0", "1.1.0", "dev.crm", "ann's secret", "ann")
Step = Callable[[Platform], Awaitable[None]]
pytestmark = pytest.mark.slow


async def mark(platform: Platform, ref: Ref) -> None:
    """Mark an object as deleted as a definition's deletion does, past what refuses it."""
    store = platform.state.writing
    document = await store.get(ref)
    counted = dict.fromkeys(TYPES[ref.kind].KEPT_BY, 0)
    await store.set_status(held_of(document), {**document["status"], **counted})
    await store.delete(Held(ref, "", ""))


async def protect(platform: Platform) -> None:
    document = await platform.state.writing.get(DEV)
    document["spec"]["deletionProtection"] = True
    await platform.state.writing.replace(document, document["metadata"]["resourceVersion"])


async def of_a_region(platform: Platform) -> None:
    await mark(platform, REGION)


async def of_a_package(platform: Platform) -> None:
    await mark(platform, PACKAGE)


async def of_a_protected_tenant(platform: Platform) -> None:
    await protect(platform)
    await platform.converged()
    await mark(platform, TENANT)


async def hold(platform: Platform, *others: str) -> None:
    """Let other controllers hold an identity of the environment."""
    document = await platform.state.writing.get(ANN)
    ours = tuple(each for each in document["metadata"]["finalizers"] if each == FINALIZER)
    await platform.state.writing.set_finalizers(held_of(document), (*ours, *others))


async def of_a_protected_environment(platform: Platform) -> None:
    """Protect it after its deletion has begun."""
    await hold(platform, "example.com/hold")
    await platform.state.writing.delete(Held(DEV, "", ""))
    await platform.runtime.idle(1)
    await protect(platform)
    await platform.runtime.idle(1)
    await hold(platform)


ROWS: dict[str, tuple[Ref, Step, str]] = {
    "a region": (REGION, of_a_region, ""),
    "a package": (PACKAGE, of_a_package, "sed -i s/version:.1.0.0/version:\\ 1.1.0/"),
    "a tenant with a protected environment": (TENANT, of_a_protected_tenant, "sed -i s/true/false/"),
    "a protected environment": (DEV, of_a_protected_environment, "sed -i s/true/false/"),
}


def commands_of(document: Document) -> list[str]:
    """The commands that the object's blockers name; those of its condition, if it has no blockers."""
    status = document["status"]
    told = [each["resolve"] for each in (status.get("deletion") or {}).get("blockers", ())]
    told = told or [next(each["message"] for each in status["conditions"] if each["type"] == "Ready")]
    assert all("`tenantry " in each for each in told), told
    return [command for each in told for command in re.findall(r"`tenantry (.+?)`", each)]


async def state_of(folder: Path) -> Path:
    """The state of a platform to which parts of the base were applied by hand: no source declares them."""
    state = folder / ".tenantry"
    for names in ((), PARTS[:2], PARTS[2:]):  # the tenant's namespace is made while the platform runs
        if names:
            files = write(folder / names[0], {name: BASE[name] for name in names})
            applied = await run(f"apply -f {files}", folder)
            assert applied.returncode == 0, applied.stderr
        async with platform_on(state):
            pass
    return state


async def run(command: str, cwd: Path, editor: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command on the stopped platform of a folder."""
    return await asyncio.to_thread(called, *shlex.split(command), cwd=cwd, KUBE_EDITOR=editor)


@pytest.mark.parametrize("row", ROWS)
async def test_the_command_of_each_blocker_ends_a_deletion(row: str, tmp_path: Path) -> None:
    ref, begin, editor = ROWS[row]
    state = await state_of(tmp_path)
    async with platform_on(state) as platform:
        await begin(platform)
        await platform.runtime.idle(1)
        document = await platform.state.writing.get(ref)
    commands = commands_of(document)
    assert commands
    for command in commands:
        done = await run(command, tmp_path, editor)
        assert done.returncode == 0, (command, done.stderr)
    async with platform_on(state) as platform:
        with pytest.raises(NotFound):
            await platform.state.writing.get(ref)


@pytest.mark.parametrize("ref", [DEV, TENANT], ids=lambda ref: ref.kind)
async def test_the_command_of_a_blocker_leads_to_who_holds_it(ref: Ref, tmp_path: Path) -> None:
    state = await state_of(tmp_path)
    async with platform_on(state) as platform:
        await hold(platform, "example.com/hold")
        await platform.state.writing.delete(Held(ref, "", ""))
        await platform.runtime.idle(1)
        document = await platform.state.writing.get(ref)
    seen, told = set[str](), commands_of(document)
    while told:  # a tenant waits for an environment, which waits for an identity
        command = told.pop()
        done = await run(command, tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        seen.add(command)
        told += [each for each in re.findall(r"`tenantry (.+?)`", re.sub(r"\s+", " ", done.stdout)) if each not in seen]
    assert f"describe {ANN}" in seen
    assert "example.com/hold" in (await run(f"describe {ANN}", tmp_path)).stdout


async def test_the_refusal_of_a_deletion_names_the_command_that_permits_it(tmp_path: Path) -> None:
    state = await state_of(tmp_path)
    async with platform_on(state) as platform:
        await protect(platform)
        with pytest.raises(Forbidden) as refused:
            await platform.state.writing.delete(Held(DEV, "", ""))
    (command,) = re.findall(r"`tenantry (.+?)`", refused.value.told)
    assert (await run(command, tmp_path, "sed -i s/true/false/")).returncode == 0
    assert (await run(f"delete {DEV}", tmp_path)).returncode == 0


async def confirm(platform: Platform) -> None:
    document = await platform.state.writing.get(NAMESPACE)
    document["metadata"]["annotations"][DELETION_CONFIRMED] = "true"
    await platform.state.writing.replace(document, document["metadata"]["resourceVersion"])


async def test_a_tenants_namespace_is_deleted_where_somebody_confirms_it_and_comes_back_empty(tmp_path: Path) -> None:
    state = await state_of(tmp_path)
    refused = await run("delete namespace/tenant-acme", tmp_path)
    assert refused.returncode == 1
    assert "is the namespace of tenant acme: delete the Tenant instead" in re.sub(r"\s+", " ", refused.stderr)
    async with platform_on(state) as platform:
        uid = (await platform.state.writing.get(NAMESPACE))["metadata"]["uid"]
        await confirm(platform)

    done = await run("delete namespace/tenant-acme", tmp_path)
    first, *held = done.stdout.splitlines()
    assert (done.returncode, first) == (0, "namespace/tenant-acme is being deleted; it holds:"), done.stderr
    assert {f"  {each.kind.lower()}/{each.namespace}/{each.name}" for each in (DEV, PACKAGE, ANN)} < {*held}

    async with platform_on(state) as platform:
        await platform.converged()
        assert (await platform.state.writing.get(NAMESPACE))["metadata"]["uid"] != uid
        assert [each for each in (DEV, PACKAGE, ANN) if await exists(platform, each)] == []
        tenant = platform.state.cache.resource(TENANT)
        assert tenant is not None and tenant.ready


async def exists(platform: Platform, ref: Ref) -> bool:
    try:
        await platform.state.writing.get(ref)
    except NotFound:
        return False
    return True
