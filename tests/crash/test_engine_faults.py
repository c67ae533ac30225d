"""Every request that changes an engine, ours or another's, meets every fault of engines and networks once.

Whatever happens: everything becomes Ready, nothing is done twice, and after the deletion nothing is left.
A failure names its place; `TENANTRY_ENGINE_FAULT='<place>' pytest tests/crash/test_engine_faults.py -m ''` runs it alone.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tenantry.adapters.engine import wire as engine_wire
from tenantry.model.verdicts import Stalled
from tests.campaigns.tried import Tried
from tests.crash import story
from tests.crash.engine_proxy import EngineFault, EngineProxy, Strike
from tests.scenario.foreign_engine import ForeignEngine
from tests.scenario.serving import serving
from tests.support import own_engine
from tests.support.foreign_engines import LOOPBACK, Declared, holds
from tests.support.own_engine import Ours, applied, impatient, ready_of, rests

__all__ = ["impatient"]

REPLAY = os.environ.get("TENANTRY_ENGINE_FAULT", "")
SEED = int(os.environ.get("TENANTRY_SEED", "20261121"))
SAMPLE = 1
"""The normal tier has so many of the places of another's engine."""
READS = 4
"""Of the requests that only read, so many are struck by each fault."""
CONTROLLED = 3
"""So many places are struck while a control is switched off."""


class Told(Protocol):
    """A platform that goes through a story about engines behind a proxy."""

    async def tell(self, folder: Path, proxy: EngineProxy) -> list[Any]:
        """The state after each chapter."""


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
                    await applied(platform, proxy, approve=chapter == "delete")
                    await rests(platform, proxy)
                    # A provider's id is of the engine's choice.
                    done = Counter(re.sub(r"/p-\d+", "", key) for key in engine.effects if not key.startswith("PUT "))
                    portraits.append({"holds": holds(engine), "done": done, "ready": ready_of(platform)})
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
        raise AssertionError(f"has not converged in {own_engine.CONVERGES_S} s; {replay}") from None
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


@pytest.mark.slow
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
    monkeypatch.setattr(own_engine, "CONVERGES_S", 5.0)
    changes = [each for each in reference.places() if each.fault is fault and not each.key.startswith("GET ")]
    failed = []
    for number, strike in enumerate(random.Random(SEED).sample(changes, CONTROLLED)):
        try:
            await _check(host, strike, reference, tmp_path / f"{number}")
        except AssertionError:
            failed.append(strike.key)
    print(f"{len(failed)} of {CONTROLLED}: {failed}")
    assert failed
