"""Every request that changes an engine, ours or another's, meets every fault of engines and networks once.

Whatever happens: everything becomes Ready, nothing is done twice, and after the deletion nothing is left.
A failure names its place; `TENANTRY_ENGINE_FAULT='<place>' pytest tests/crash/test_engine_faults.py -m ''` runs it alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

from tenantry.adapters import engine_wire
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.registry import TYPES
from tenantry.model.verdicts import Stalled
from tests.campaigns.tried import Tried
from tests.crash import story
from tests.crash.campaign import URL, portrait
from tests.crash.engine_proxy import EngineFault, EngineProxy, Strike
from tests.scenario.foreign_engine import ForeignEngine
from tests.scenario.serving import serving
from tests.scenario.test_foreign_engines import LOOPBACK, Declared, holds

REPLAY = os.environ.get("TENANTRY_ENGINE_FAULT", "")
SEED = int(os.environ.get("TENANTRY_SEED", "20261121"))
SAMPLE = 1
"""The normal tier has so many of the places of another's engine."""
READS = 4
"""Of the requests that only read, so many are struck by each fault."""
CONVERGES_S = 30.0
CONTROLLED = 3
"""So many places are struck while a control is switched off."""
PATIENCE_S = 2.0
"""What the operator waits for an engine here, instead of 10 s and more."""


class Told(Protocol):
    """A platform that is told a story about engines behind a proxy."""

    async def tell(self, folder: Path, proxy: EngineProxy) -> list[Any]:
        """What there is after each chapter."""


class Ours:
    """Engines of the platform itself, reached by sockets."""

    async def tell(self, folder: Path, proxy: EngineProxy) -> list[Any]:
        state, source = folder / "state", folder / "source"
        state.mkdir(parents=True)
        platform = await Platform.open(state, URL)
        portraits = []
        try:
            async with proxy.serving() as url, serving(platform.http) as proxy.target:
                through = _Through(url)
                platform.engines._transport_for = lambda _: through
                platform.attach(story.write(source, story.CHAPTERS[0]), "default")
                await platform.start()
                for chapter in story.CHAPTERS:
                    story.write(source, chapter)
                    await _told(platform, approve=chapter == "delete")
                    await _rests(platform, proxy)
                    with proxy.at_rest():
                        portraits.append(await portrait(platform))
                await through.aclose()
        finally:
            await platform.close()
        return portraits


class _Through(httpx.AsyncHTTPTransport):
    """To the proxy, whatever the URL says."""

    def __init__(self, proxy: str) -> None:
        super().__init__()
        self._proxy = httpx.URL(proxy)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host=self._proxy.host, port=self._proxy.port)
        return await super().handle_async_request(request)


class Anothers:
    """An engine that is not ours, adopted by its URL."""

    async def tell(self, folder: Path, proxy: EngineProxy) -> list[Any]:
        engine = ForeignEngine()
        portraits: list[Any] = []
        async with serving(engine.http) as proxy.target, proxy.serving() as url:
            declared = Declared(folder, url)
            async with declared.platform(LOOPBACK) as platform:
                for chapter in ("create", "edit", "delete"):
                    self._write(declared, chapter)
                    await _told(platform, approve=chapter == "delete")
                    await _rests(platform, proxy)
                    # A provider's id is of the engine's choice.
                    done = Counter(re.sub(r"/p-\d+", "", key) for key in engine.effects if not key.startswith("PUT "))
                    portraits.append({"holds": holds(engine), "done": done, "ready": _ready(platform)})
            portraits.append([path.name for path in (declared.state / "incoming").rglob("*")])
        return portraits

    def _write(self, declared: Declared, chapter: str) -> None:
        if chapter == "edit":
            declared.app = "{environment: old, app: crm, version: 2.0.0, allowDropsFor: 2.0.0}"
            declared.ann = "a second secret"
        declared.write()
        if chapter == "delete":
            region, tenant = story.object_("Region", "eu", declared.region), story.object_("Tenant", "acme", "{}")
            (declared.folder / "platform.yaml").write_text("---".join((region, tenant)))


async def _told(platform: Platform, *, approve: bool) -> None:
    """What is written now, applied until nothing is left to do."""
    async with asyncio.timeout(CONVERGES_S):
        assert platform.source is not None
        await platform.source.sync()
        await _settled(platform)
        if approve:
            platform.source.syncer.approve()
            await platform.source.sync()
            await _settled(platform)


async def _settled(platform: Platform) -> None:
    """Nothing waits for another try, either."""
    await platform.converged()
    while any(reason in _TRIED_AGAIN for _, reason in _ready(platform).values()):
        await asyncio.sleep(0.02)  # a back-off tells nobody when it ends
        await platform.converged()


_TRIED_AGAIN = ("EngineUnreachable", "EngineTimeout", "EngineFailing", "EngineAnswer", "NotAnEngine", "EngineNotRunning")


def _ready(platform: Platform) -> dict[str, tuple[str, str]]:
    """Status and reason by object."""
    found = {}
    for kind in set(TYPES) - {"Operation"}:
        for resource in platform.cache.resources(kind):
            ready = resource.status.condition("Ready")
            if ready is not None:
                found[str(resource.ref)] = (ready.status, ready.reason)
    return found


async def _rests(platform: Platform, proxy: EngineProxy) -> None:
    """Looking at everything again writes nothing and changes no engine."""
    struck = -1
    while struck != proxy.struck:  # a look that is struck is one more
        struck, before = proxy.struck, (_versions(platform), proxy.changes)
        platform.runtime.resync()
        await _settled(platform)
    moved = dict(_versions(platform).items() ^ before[0].items())
    assert (moved, proxy.changes) == ({}, before[1])


def _versions(platform: Platform) -> dict[str, str]:
    return {
        str(resource.ref): resource.metadata.resource_version for kind in TYPES for resource in platform.cache.resources(kind)
    }


HOSTS: dict[str, Told] = {"ours": Ours(), "another's": Anothers()}


@dataclass(frozen=True)
class Reference:
    """A story without faults: its portraits, and what was asked."""

    portraits: list[Any]
    proxy: EngineProxy

    def places(self) -> list[Strike]:
        """Every change by every fault, and some reads; some faults last for three requests."""
        chosen = random.Random(SEED)
        made = Counter(self.proxy.changes)
        changes = [
            (key, nth) for key in sorted(made) for nth in range(1, made[key] + 1) if nth == 1 or not key.startswith("PUT ")
        ]
        # How often it looks differs from run to run, and how many edits come together.
        reads = [(key, 1) for key in sorted({*self.proxy.asked} - {*self.proxy.changes})]
        places = []
        for fault in EngineFault:
            for key, nth in [*changes, *chosen.sample(reads, min(READS, len(reads)))]:
                places.append(Strike(key, nth, fault, chosen.choice([1, 1, 3])))
        return places


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOREIGN_S", "FOREIGN_LONG_S"):
        monkeypatch.setattr(engine_wire, name, PATIENCE_S)
    for timeout in (engine_wire.TIMEOUT, engine_wire.LONG_TIMEOUT):
        monkeypatch.setattr(timeout, "read", PATIENCE_S)


async def _reference(host: str, folder: Path) -> Reference:
    proxy = EngineProxy()
    return Reference(await HOSTS[host].tell(folder / "reference", proxy), proxy)


async def _check(host: str, strike: Strike, reference: Reference, folder: Path) -> None:
    place = f"{host}:{strike.key}:{strike.nth}:{strike.fault.name}:{strike.times}"
    if REPLAY and place != REPLAY:
        return
    replay = f"seed {SEED}; replay: TENANTRY_ENGINE_FAULT={place!r}"
    proxy = EngineProxy(strike)
    try:
        portraits = await HOSTS[host].tell(folder, proxy)
    except TimeoutError:
        raise AssertionError(f"has not converged in {CONVERGES_S} s; {replay}") from None
    except AssertionError as error:
        raise AssertionError(f"{error}; {replay}") from error
    assert proxy.struck, f"was not struck; {replay}"
    assert portraits == reference.portraits, replay


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("fault", EngineFault, ids=lambda fault: fault.name)
@pytest.mark.parametrize("host", HOSTS)
async def test_the_end_is_the_same_whatever_befalls_a_request(
    host: str, fault: EngineFault, tmp_path: Path, tried: Tried
) -> None:
    reference = await _reference(host, tmp_path)
    for number, strike in enumerate(each for each in reference.places() if each.fault is fault):
        await _check(host, strike, reference, tmp_path / f"{number}")
        tried()


@pytest.mark.parametrize("host", [pytest.param("ours", marks=pytest.mark.slow), "another's"])
async def test_a_sample_of_places(host: str, tmp_path: Path) -> None:
    reference = await _reference(host, tmp_path)
    assert len(reference.places()) >= 80
    for number, strike in enumerate(random.Random(SEED).sample(reference.places(), SAMPLE)):
        await _check(host, strike, reference, tmp_path / f"{number}")


def _no_end_of_a_wait(patch: pytest.MonkeyPatch) -> None:
    for name in ("FOREIGN_S", "FOREIGN_LONG_S"):
        patch.setattr(engine_wire, name, 1e6)
    for timeout in (engine_wire.TIMEOUT, engine_wire.LONG_TIMEOUT):
        patch.setattr(timeout, "read", None)


def _no_other_try(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_wire, "Transient", Stalled)


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize(
    ("off", "fault"),
    [(_no_end_of_a_wait, EngineFault.TIME_OUT), (_no_other_try, EngineFault.RESET), (_no_other_try, EngineFault.GARBLED)],
    ids=["the end of a wait", "another try after no answer", "another try after a wrong answer"],
)
@pytest.mark.parametrize("host", HOSTS)
async def test_without_a_control_it_fails(
    host: str, off: Callable[[pytest.MonkeyPatch], None], fault: EngineFault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = await _reference(host, tmp_path)
    off(monkeypatch)
    monkeypatch.setattr(sys.modules[__name__], "CONVERGES_S", 5.0)
    changes = [each for each in reference.places() if each.fault is fault and not each.key.startswith("GET ")]
    failed = []
    for number, strike in enumerate(random.Random(SEED).sample(changes, CONTROLLED)):
        try:
            await _check(host, strike, reference, tmp_path / f"{number}")
        except AssertionError:
            failed.append(strike.key)
    print(f"{len(failed)} of {CONTROLLED}: {failed}")
    assert failed
