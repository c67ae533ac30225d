"""Changes made in an engine behind the platform's back: mended, reported, or left, as the environment asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.operation.spec import Operation
from tenantry.model.facts import Password
from tenantry.model.resource import Ref
from tests.scenario.cli import called
from tests.support.drift import ACME, MANIFEST, engine, looked, meddle, platform_of

OBJECTS = ("App/tenant-acme/dev.crm", "Identity/tenant-acme/ann", "IdentityProvider/tenant-acme/corp")


async def contents(platform: Platform) -> tuple[Any, ...]:
    """The contents of an engine: installed apps, users, issuers."""
    behind = engine(platform)
    apps = sorted((app.id, app.version) for app in await behind.apps())
    users = sorted(user.username for user in await behind.identities())
    return apps, users, sorted(one.settings.issuer_url for one in await behind.identity_providers())


def corrections(platform: Platform) -> list[tuple[str, str]]:
    """The objects of the Operations that corrected drift, and how these ended."""
    found = [one for one in platform.state.cache.resources("Operation") if isinstance(one, Operation)]
    return sorted((one.spec.target.kind, one.status.result) for one in found if one.spec.action == "CORRECT_DRIFT")


def condition(platform: Platform, kind: str, name: str, type_: str) -> tuple[str, str] | None:
    resource = platform.state.cache.resource(Ref(kind, ACME, name))
    assert resource is not None
    told = resource.status.condition(type_)
    return (told.status, told.message) if told else None


DECLARED = ([("crm", "1.0.0")], ["admin", "ann"], ["https://issuer.example"])
MEDDLED: tuple[Any, ...] = ([], ["admin"], ["https://evil.example"])


async def test_correct_mends_what_was_changed_and_tells_it(tmp_path: Path) -> None:
    async with platform_of(tmp_path) as platform:
        assert await contents(platform) == DECLARED
        await meddle(platform)
        assert await contents(platform) == MEDDLED
        await looked(platform)
        assert await contents(platform) == DECLARED
        assert corrections(platform) == [("App", "SUCCESS"), ("Identity", "SUCCESS"), ("IdentityProvider", "SUCCESS")]
    listed = await asyncio.to_thread(called, "drift", "--state", tmp_path / "state", cwd=tmp_path)
    assert (listed.returncode, listed.stdout) == (0, "Everything is as declared\n")


@pytest.mark.slow
async def test_warn_tells_what_was_changed_and_mends_nothing_until_it_is_asked_to(tmp_path: Path) -> None:
    async with platform_of(tmp_path, ", driftPolicy: Warn") as platform:
        assert await contents(platform) == DECLARED
        assert condition(platform, "App", "dev.crm", "Drifted") == ("False", "")
        await meddle(platform)
        await looked(platform)
        assert (await contents(platform), corrections(platform)) == (MEDDLED, [])
        assert condition(platform, "App", "dev.crm", "Ready") == ("True", "")
        told = condition(platform, "App", "dev.crm", "Drifted")
        assert told == ("True", "installed is no version, declared is 1.0.0; version 1.0.0 is not stored")
    listed = await asyncio.to_thread(called, "drift", "--state", tmp_path / "state", "-o", "json", cwd=tmp_path)
    found = json.loads(listed.stdout)
    assert listed.returncode == 1
    assert [(each["object"], each["policy"]) for each in found] == [(each, "Warn") for each in OBJECTS]
    assert all(each["since"] and each["differs"] for each in found)
    table = await asyncio.to_thread(called, "drift", "--state", tmp_path / "state", cwd=tmp_path)
    assert table.stdout.splitlines()[0].split() == ["OBJECT", "POLICY", "SINCE", "MESSAGE"]
    async with platform_of(tmp_path, ", driftPolicy: Warn") as platform:
        assert await contents(platform) == MEDDLED  # the engine was away meanwhile, and comes back as it was
    async with platform_of(tmp_path) as platform:
        await looked(platform)
        assert await contents(platform) == DECLARED
        assert condition(platform, "App", "dev.crm", "Drifted") is None


def as_keep(held: tuple[Any, ...]) -> None:
    assert held[1] == ["admin", "ann", "eve"]


def as_remove(held: tuple[Any, ...]) -> None:
    assert held == DECLARED


@pytest.mark.parametrize(
    ("environment", "holds", "corrected"),
    [
        pytest.param("", as_keep, [], id="Keep"),
        pytest.param(", engine: {unmanaged: Remove}", as_remove, [("Environment", "SUCCESS")], id="Remove"),
        pytest.param(", driftPolicy: Warn, engine: {unmanaged: Remove}", as_keep, [], id="Remove under Warn"),
    ],
)
async def test_what_nobody_declared(
    tmp_path: Path, environment: str, holds: Callable[[tuple[Any, ...]], None], corrected: list[tuple[str, str]]
) -> None:
    async with platform_of(tmp_path, environment) as platform:
        behind = engine(platform)
        (tmp_path / "game").mkdir()
        (tmp_path / "game" / "app.yaml").write_text(MANIFEST.format(id="game"))
        await asyncio.to_thread(called, "package", "build", "game", "-o", "game.tapp", cwd=tmp_path)
        await behind.publish(tmp_path / "game.tapp")
        await behind.add_identity("eve", Password(clear="a long enough secret"))
        (corp,) = await behind.identity_providers()
        await behind.add_identity_provider(type(corp.settings)("evil", "https://evil.example", "evil"), Password())
        await looked(platform)
        holds(await contents(platform))
        assert corrections(platform) == corrected
