"""Engines that others run: adopted by URL and password, converged by the interface alone, whatever they do meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.engine import wire as engine_wire
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds import orphans
from tenantry.kinds.environment.spec import Environment
from tenantry.model.resource import Held, Ref
from tenantry.packages.build import build
from tenantry.settings import OutboundSettings, Settings
from tests.crash.campaign import URL
from tests.crash.story import object_
from tests.scenario.foreign_engine import ForeignEngine, StoredApp
from tests.scenario.serving import serving
from tests.support.foreign_engines import ACME, LOOPBACK, Declared, engine, holds
from tests.support.waiting import eventually

__all__ = ["engine"]

CHANGES = ("POST", "PUT", "DELETE")
KINDS = {"Environment": "old", "App": "old.crm", "Identity": "ann", "IdentityProvider": "corp"}


@pytest.fixture
async def declared(engine: ForeignEngine, tmp_path: Path) -> AsyncIterator[Declared]:
    async with serving(engine.http) as url:
        yield Declared(tmp_path, url)


def told(platform: Platform, kind: str, type_: str = "Ready") -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    resource = platform.state.cache.resource(Ref(kind, ACME, KINDS[kind]))
    found = resource.status.condition(type_) if resource is not None else None
    return (found.status, found.reason, found.message) if found else ("", "", "")


async def until(holds: Callable[[], bool], platform: Platform) -> None:
    await eventually(holds, shows=lambda: {kind: told(platform, kind) for kind in KINDS})


def ready(platform: Platform) -> bool:
    return all(told(platform, kind)[0] == "True" for kind in KINDS)


async def reason(platform: Platform, wanted: str, kind: str = "Environment") -> str:
    """The message, once the condition has that reason."""
    await until(lambda: told(platform, kind)[1] == wanted, platform)
    return told(platform, kind)[2]


def engine_status(platform: Platform) -> str:
    old = platform.state.cache.resource(Ref("Environment", ACME, "old"))
    assert isinstance(old, Environment)
    assert old.status.engine is not None
    return old.status.engine.status


DONE = (
    "POST /admin/apps/upload",
    "POST /admin/apps/crm/install/1.0.0",
    "POST /admin/identities",
    "POST /admin/idps/external",
)


@pytest.mark.slow
async def test_a_foreign_engine_becomes_as_declared_and_is_then_left_alone(engine: ForeignEngine, declared: Declared) -> None:
    async with declared.platform() as platform:
        await platform.converged()
        assert ready(platform)
        assert holds(engine) == ({"crm": "1.0.0"}, ["admin", "ann"], ["corp"])
        assert engine.passwords()["ann"] == declared.ann
        assert sorted(engine.effects) == sorted(DONE)
        platform.runtime.resync()
        await platform.converged()
    async with declared.platform() as platform:  # a start knows nothing but what its status told
        await platform.converged()
        assert ready(platform)
    assert sorted(each for each in engine.asked if each.startswith(CHANGES)) == sorted(DONE)
    assert [each.name for each in (declared.state / "engines").iterdir() if each.is_dir()] == []


async def test_what_nobody_declared_is_left_alone(engine: ForeignEngine, declared: Declared, tmp_path: Path) -> None:
    build(declared.folder / "crm", tmp_path / "crm.tapp")
    engine.add_user({"username": "bob", "password": "bob's secret"})
    theirs = {"name": "theirs", "issuer_url": "https://their.example", "client_id": "x", "scopes": "openid"}
    engine.put_provider(None, {**theirs, "auto_provision": True, "is_active": True})
    engine.apps["game"] = StoredApp("Game", "Others", "1", {"1": (tmp_path / "crm.tapp").read_bytes()})
    async with declared.platform() as platform:
        await platform.converged()
        assert ready(platform)
    assert holds(engine) == ({"game": "1", "crm": "1.0.0"}, ["admin", "ann", "bob"], ["corp", "theirs"])
    assert engine.passwords()["bob"] == "bob's secret"


@pytest.mark.slow
async def test_answers_that_are_lost_after_the_effect_do_nothing_twice(engine: ForeignEngine, declared: Declared) -> None:
    seen: Counter[str] = Counter()

    def lose(method: str, path: str) -> str:
        seen[f"{method} {path}"] += 1
        return "lose" if seen[f"{method} {path}"] == 1 else ""

    engine.fault = lose
    async with declared.platform() as platform:
        await until(lambda: ready(platform), platform)
    assert sorted(engine.effects) == sorted(DONE)
    assert holds(engine) == ({"crm": "1.0.0"}, ["admin", "ann"], ["corp"])


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fail", "nonsense", "slow"])
async def test_an_engine_that_fails_at_first_is_tried_again(
    engine: ForeignEngine, declared: Declared, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "slow":
        monkeypatch.setattr(engine_wire, "FOREIGN_S", 1.0)
        monkeypatch.setattr(engine_wire, "FOREIGN_LONG_S", 1.0)
    seen: Counter[str] = Counter()

    def first(method: str, path: str) -> str:
        seen[f"{method} {path}"] += 1
        return fault if seen[f"{method} {path}"] <= 2 else ""

    engine.fault = first
    async with declared.platform() as platform:
        await until(lambda: ready(platform), platform)
    assert sorted(engine.effects) == sorted(DONE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "wanted", "message"),
    [
        pytest.param("fail", "EngineFailing", "answers 503: out of order", marks=pytest.mark.slow),
        ("nonsense", "NotAnEngine", "is not an engine"),
        ("slow", "EngineTimeout", "does not answer in time"),
    ],
)
async def test_an_engine_that_goes_away_is_told_and_what_is_in_it_waits(
    engine: ForeignEngine,
    declared: Declared,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    wanted: str,
    message: str,
) -> None:
    async with declared.platform() as platform:
        await platform.converged()
        assert engine_status(platform) == "RUNNING"
        if fault == "slow":
            monkeypatch.setattr(engine_wire, "FOREIGN_S", 0.3)
        engine.fault = lambda method, path: fault
        platform.runtime.resync()
        assert message in await reason(platform, wanted)
        assert engine_status(platform) == "FAILED"
        platform.runtime.resync()
        assert "does not run" in await reason(platform, "EngineNotRunning", "Identity")
        engine.fault = lambda method, path: ""
        monkeypatch.undo()
        await until(lambda: ready(platform), platform)
        assert engine_status(platform) == "RUNNING"


@pytest.mark.slow
async def test_a_wrong_password_is_told_and_the_right_one_is_taken_at_once(engine: ForeignEngine, declared: Declared) -> None:
    declared.admin = "not the password"
    async with declared.platform() as platform:
        message = await reason(platform, "EngineRefusesPassword")
        assert "wrong password" in message
        assert declared.admin not in message
        assert engine.effects == []
        declared.admin = engine.password
        await declared.again(platform)
        await until(lambda: ready(platform), platform)


@pytest.mark.slow
async def test_a_new_password_is_delivered_once(engine: ForeignEngine, declared: Declared) -> None:
    async with declared.platform() as platform:
        await platform.converged()
        declared.ann = "a second secret"
        await declared.again(platform)
        await until(lambda: engine.passwords()["ann"] == declared.ann, platform)
        await platform.converged()
        platform.runtime.resync()
        await platform.converged()
    assert engine.asked.count("PUT /admin/identities/ann") == 1


@pytest.mark.slow
async def test_an_install_that_drops_data_is_refused_by_the_engine_until_it_is_allowed(
    engine: ForeignEngine, declared: Declared
) -> None:
    async with declared.platform() as platform:
        await platform.converged()
        declared.app = "{environment: old, app: crm, version: 2.0.0}"
        await declared.again(platform)
        assert "contacts.email" in await reason(platform, "Invalid", "App")
        assert engine.apps["crm"].installed == "1.0.0"
        declared.app = "{environment: old, app: crm, version: 2.0.0, allowDropsFor: 2.0.0}"
        await declared.again(platform)
        await until(lambda: ready(platform), platform)
        assert engine.apps["crm"].installed == "2.0.0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("", ({"crm": ""}, ["admin", "bob"], [])),
        pytest.param(
            ", deletionPolicy: Retain",
            ({"crm": "1.0.0"}, ["admin", "ann", "bob"], ["corp"]),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["Snapshot", "Retain"],
)
async def test_a_deleted_environment_lets_go_of_its_engine(
    engine: ForeignEngine, declared: Declared, policy: str, left: tuple[Any, ...]
) -> None:
    engine.add_user({"username": "bob", "password": "bob's secret"})
    declared.environment = policy
    async with declared.platform() as platform:
        await platform.converged()
        old = platform.state.cache.resource(Ref("Environment", ACME, "old"))
        assert old is not None
        await platform.state.writing.delete(old.held)
        await until(lambda: platform.state.cache.resource(old.ref) is None, platform)
    assert holds(engine) == left
    # Its data stays, as that of any deleted app.
    assert engine.apps["crm"].columns == frozenset({"contacts.id", "contacts.email"})


@pytest.mark.slow
async def test_what_leaves_its_source_with_its_password_is_taken_out_of_the_engine_first(
    engine: ForeignEngine, declared: Declared
) -> None:
    async with declared.platform() as platform:
        await platform.converged()
        assert platform.source is not None
        rest = (object_("Region", "eu", declared.region), object_("Tenant", "acme", "{}"))
        (declared.folder / "platform.yaml").write_text("---".join(rest))
        await platform.source.sync()
        platform.source.syncer.approve()
        await platform.source.sync()
        await until(lambda: platform.state.cache.entry(Ref("Secret", ACME, "engine")) is None, platform)
        assert platform.state.cache.resource(Ref("Environment", ACME, "old")) is None
    assert holds(engine) == ({"crm": ""}, ["admin"], [])


@pytest.mark.slow
async def test_an_environment_whose_credential_is_gone_is_released_after_a_while(
    engine: ForeignEngine, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "GRACE", timedelta(seconds=4))
    async with declared.platform() as platform:
        await platform.converged()
        before = engine.state()
        credential = await platform.state.writing.get(Ref("Secret", ACME, "engine"))
        await platform.state.writing.delete(Held(Ref("Secret", ACME, "engine"), credential["metadata"]["uid"], ""))
        old = platform.state.cache.resource(Ref("Environment", ACME, "old"))
        assert old is not None
        await platform.state.writing.delete(Held(old.ref, old.metadata.uid, ""))
        await reason(platform, "CredentialMissing", "Identity")
        await until(lambda: platform.state.cache.resource(old.ref) is None, platform)
    assert engine.state() == before


HTTP = Settings(outbound=OutboundSettings(http=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "settings", "wanted", "message"),
    [
        pytest.param("http://127.0.0.1:{port}", Settings(), "Invalid", "must begin with https://", id="no encryption"),
        pytest.param("https://127.0.0.1:{port}", Settings(), "Invalid", "127.0.0.1 is not a public address", id="loopback"),
        pytest.param("http://localhost:{port}", HTTP, "AddressRefused", "not public", id="a name of loopback"),
        pytest.param("http://127.0.0.1:{port}/?x=", LOOPBACK, "Invalid", "must have no query", id="a query"),
        pytest.param(
            f"{URL}/e/umbra/live", HTTP, "Invalid", "not a public address", id="another tenant's engine, in this process"
        ),
    ],
)
async def test_an_address_that_is_not_public_is_not_called(
    engine: ForeignEngine, declared: Declared, url: str, settings: Settings, wanted: str, message: str
) -> None:
    declared.url = url.format(port=declared.url.rpartition(":")[2])
    async with declared.platform(settings) as platform:
        assert message in await reason(platform, wanted)
    assert engine.asked == []


@pytest.mark.slow
async def test_a_region_opens_networks_to_engines_of_others(engine: ForeignEngine, declared: Declared) -> None:
    declared.region = "{engine: {external: true, externalNetworks: [127.0.0.0/8]}}"
    async with declared.platform(Settings(outbound=OutboundSettings(http=True))) as platform:
        await platform.converged()
        assert ready(platform)


@pytest.mark.slow
async def test_a_region_that_allows_none_has_nobody_called(engine: ForeignEngine, declared: Declared) -> None:
    declared.region = "{}"
    async with declared.platform() as platform:
        await reason(platform, "ExternalNotAllowed")
        await platform.converged()
        assert told(platform, "Identity")[1] == "EngineNotRunning"
    assert engine.asked == []


@pytest.mark.slow
async def test_a_secret_without_the_label_is_not_sent_to_anybody(engine: ForeignEngine, declared: Declared) -> None:
    async with declared.platform() as platform:
        text = (declared.folder / "platform.yaml").read_text()
        assert platform.source is not None
        await platform.converged()
        engine.asked.clear()
        (declared.folder / "platform.yaml").write_text(text.replace("credential: environment", "credential: user"))
        await platform.source.sync()
        await reason(platform, "SecretNotLabelled")
        await platform.converged()
        platform.runtime.resync()
        await platform.converged()
    assert engine.asked == []


@pytest.mark.slow
async def test_a_plan_sees_what_the_engine_holds_and_asks_only(engine: ForeignEngine, declared: Declared) -> None:
    engine.add_user({"username": "ann", "password": "her own secret"})
    declared.region = "{engine: {external: true, externalNetworks: [127.0.0.0/8]}}"
    declared.write()
    settings = Settings(outbound=OutboundSettings(http=True))
    platform = await Platform.open(declared.state, URL, settings=settings)
    try:
        await platform.start()
        planned = await platform.plan_source(declared.folder, "default")
        assert [each for each in engine.asked if each.startswith(CHANGES)] == []
        effects = [str(change) for _, change in planned.effects]
        assert planned.verdicts == ()
    finally:
        await platform.close()
    async with declared.platform(settings) as platform:
        await platform.converged()
        assert ready(platform)
    assert [each for each in effects if "ann" in each] == ["identity ann: set password"]
    assert "PUT /admin/identities/ann" in engine.effects
    assert "POST /admin/identities" not in engine.effects
