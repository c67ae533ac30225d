"""The limits of a Tenant: refusals at the limit, and neighbours who do not notice."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.model.quotas import Quotas
from tenantry.model.resource import Ref
from tenantry.runtime.quotas import TenantQuotas
from tests.scenario.rest_world import World, declare, declare_user, numbers, world_in
from tests.support.published_packages import CRM, NEXT, package


@asynccontextmanager
async def two_tenants(state: Path, **quota: Any) -> AsyncIterator[World]:
    """acme with that quota, and globex with none."""
    async with world_in(state) as world:
        await declare(world.platform, "Tenant", "acme", {"quota": quota})
        await declare(world.platform, "Tenant", "globex", {})
        for tenant in ("acme", "globex"):
            await declare_user(world.platform, f"{tenant}-admin", "ADMIN", tenant)
        await world.platform.converged()
        yield world


async def pushed(world: World, user: str, raw: bytes, query: str = "") -> httpx.Response:
    return await world(user, "PUT", f"/packages/{hashlib.sha256(raw).hexdigest()}{query}", content=raw)


async def metric(world: World, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", numbers(world), re.MULTILINE)
    assert found, line
    return float(found[1])


async def test_a_package_beyond_the_limit_is_refused_with_quota_limit_use_and_advice(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, packageStorage="1Ki") as world:
        assert (await pushed(world, "acme-admin", CRM)).status_code == 200
        refused = await pushed(world, "acme-admin", NEXT)
        assert refused.status_code == 413
        assert refused.headers["Tenantry-Quota"] == "packageStorage"
        assert f"quota.packageStorage of tenant acme is reached: {len(CRM)} B of 1 KiB are used" in refused.json()["error"]
        assert "delete versions that no app needs" in refused.json()["error"]
        assert await metric(world, 'tenantry_quota_refused_total{quota="packageStorage"}') == 1
        assert await metric(world, 'tenantry_quota_used_ratio{quota="packageStorage"}') == len(CRM) / 1024


async def test_at_the_limit_a_dry_run_says_so_the_same_bytes_are_taken_and_a_neighbour_is_served(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, packageStorage="1Ki") as world:
        assert (await pushed(world, "acme-admin", CRM)).status_code == 200
        assert (await pushed(world, "acme-admin", NEXT, "?dryRun=true")).status_code == 413
        assert (await pushed(world, "acme-admin", CRM)).status_code == 200
        assert (await pushed(world, "globex-admin", CRM)).status_code == 200
        assert (await pushed(world, "globex-admin", NEXT)).status_code == 200


async def test_of_many_pushes_at_once_no_more_is_stored_than_the_limit(tmp_path: Path) -> None:
    versions = [package(f"2.0.{number}")["files"]["file"][1] for number in range(6)]
    async with two_tenants(tmp_path, packageStorage="1Ki") as world:
        await world.token("acme-admin")
        answers = await asyncio.gather(*(pushed(world, "acme-admin", raw) for raw in versions))
        held = await world.platform.state.stored.files.sizes("acme")
        assert sorted({answer.status_code for answer in answers}) == [200, 413]
        assert 0 < sum(held.values()) <= 1024


async def test_room_that_is_freed_or_given_is_used(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, packageStorage="1Ki") as world:
        await pushed(world, "acme-admin", CRM)
        assert (await pushed(world, "acme-admin", NEXT)).status_code == 413
        await world.platform.state.packages.remove("acme", hashlib.sha256(CRM).hexdigest())
        assert (await pushed(world, "acme-admin", NEXT)).status_code == 200
        tenant = await world.platform.state.store.get(Ref("Tenant", "", "acme"))
        spec = {**tenant["spec"], "quota": {"packageStorage": "1Mi"}}
        await world.platform.state.writing.replace({**tenant, "spec": spec}, tenant["metadata"]["resourceVersion"])
        assert (await pushed(world, "acme-admin", CRM)).status_code == 200


async def test_requests_beyond_the_rate_are_answered_429_until_their_time_and_a_neighbour_is_served(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, requestsPerSecond=2) as world:
        for user in ("acme-admin", "globex-admin", "root"):
            await world.token(user)
        answers = [await world("acme-admin", "GET", "/environments") for _ in range(20)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused and {answer.status_code for answer in answers} == {200, 429}
        assert refused[0].headers["Retry-After"] == "1"
        assert "quota.requestsPerSecond of tenant acme is reached: 2 requests a second" in refused[0].json()["error"]
        for user in ("globex-admin", "root"):
            assert {(await world(user, "GET", "/environments")).status_code for _ in range(20)} == {200}


async def test_a_platform_wide_limit_counts_where_a_tenant_declares_none(tmp_path: Path) -> None:
    async with two_tenants(tmp_path, packageStorage="1Gi") as world:
        quotas = TenantQuotas(world.platform.state.cache, Quotas(package_storage=7, operations=3))
        assert quotas.of("acme").package_storage == 1 << 30
        assert quotas.of("globex").package_storage == 7
        assert quotas.of("") == Quotas()


@asynccontextmanager
async def with_environment(state: Path, **quota: Any) -> AsyncIterator[tuple[World, str]]:
    """The id of an environment of acme, which has that quota."""
    async with two_tenants(state, **quota) as world:
        made = await world.environment("acme", "dev")
        yield world, made["environment"]["id"]


async def change(world: World, ref: Ref, **spec: Any) -> None:
    document = await world.platform.state.store.get(ref)
    await world.platform.state.writing.replace(
        {**document, "spec": {**document["spec"], **spec}}, document["metadata"]["resourceVersion"]
    )
    await world.platform.converged()


@pytest.mark.parametrize("policy", ["Correct", "Warn"])
async def test_an_engine_has_the_limits_of_its_tenant_whatever_its_drift_policy(tmp_path: Path, policy: str) -> None:
    async with with_environment(tmp_path, databaseStorage="1Gi") as (world, id_):
        assert world.platform.state.folders.limits(id_) == (1 << 30, 0)
        await change(world, Ref("Environment", "tenant-acme", "dev"), driftPolicy=policy)
        await change(world, Ref("Tenant", "", "acme"), quota={"databaseStorage": "1Mi", "requestsPerSecond": 3})
        assert world.platform.state.folders.limits(id_) == (1 << 20, 3)


async def test_requests_of_an_engine_are_limited_and_its_probes_and_its_operator_are_not(tmp_path: Path) -> None:
    async with with_environment(tmp_path, requestsPerSecond=3) as (world, _):
        transport = httpx.ASGITransport(world.platform.http)
        async with httpx.AsyncClient(transport=transport, base_url="http://platform/e/acme/dev") as engine:
            answers = [await engine.get("/api/v1/auth/me") for _ in range(12)]
            refused = [answer for answer in answers if answer.status_code == 429]
            assert {answer.status_code for answer in answers} == {401, 429}
            assert refused[0].headers["Retry-After"] == "1"
            assert "quota.requestsPerSecond is reached: 3 requests a second" in refused[0].json()["error"]
            assert {(await engine.get("/readyz")).status_code for _ in range(12)} == {200}
        assert await metric(world, 'tenantry_quota_refused_total{quota="requestsPerSecond"}') >= len(refused)
        await change(world, Ref("Environment", "tenant-acme", "dev"), engine={"unmanaged": "Remove"})
        environment = await world.platform.state.store.get(Ref("Environment", "tenant-acme", "dev"))
        assert {one["type"]: one["status"] for one in environment["status"]["conditions"]}["Ready"] == "True"


async def test_an_install_that_does_not_fit_is_refused_over_rest(tmp_path: Path) -> None:
    async with with_environment(tmp_path, databaseStorage="1Ki") as (world, id_):
        path = f"/engines/{id_}/api/v1/admin/apps"
        assert (await world("acme-admin", "POST", f"{path}/upload", **package("1.0.0"))).status_code == 200
        refused = await world("acme-admin", "POST", f"{path}/crm/install/1.0.0")
        assert refused.status_code == 400
        assert "quota.databaseStorage is reached" in refused.json()["error"]


async def test_an_archive_beyond_the_limit_holds_the_removal_until_there_is_room(tmp_path: Path) -> None:
    async with with_environment(tmp_path, archiveStorage="1Ki") as (world, id_):
        path = f"/engines/{id_}/api/v1/admin/apps"
        assert (await world("acme-admin", "POST", f"{path}/publish", **package("1.0.0"))).status_code == 200
        await world("acme-admin", "DELETE", f"/environments/{id_}")
        ref = Ref("Environment", "tenant-acme", "dev")
        await world.platform.runtime.idle(0.1)
        environment = await world.platform.state.store.get(ref)
        ready = {one["type"]: one for one in environment["status"]["conditions"]}["Ready"]
        assert ready["reason"] == "QuotaReached"
        assert "quota.archiveStorage of tenant acme is reached: 0 B of 1 KiB are used" in ready["message"]
        assert await world.platform.backups.kept() == ()
        await change(world, Ref("Tenant", "", "acme"), quota={"archiveStorage": "1Gi"})
        await world.platform.runtime.idle(0.1)
        assert world.platform.state.cache.entry(ref) is None
        assert [kept.id for kept in await world.platform.backups.kept()] == [id_]
