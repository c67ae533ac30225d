"""The slices of engines that sleep, from what the keeper sees: declared environments, the api's pods and what there is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tenantry.adapters.kubernetes.waking.slice_keeper import STAYS_S, SleepingEngine, SliceKeeper
from tenantry.adapters.kubernetes.waking.slices import ApiAddresses, wanted_slice
from tenantry.model.resource import Document
from tests.support.store_faults import Crash, Fault, FaultPoint
from tests.support.waiting import eventually
from tests.unit.adapters.kubernetes.waking.watched_api import PATH, REF, RUNS, SLEEPS, STARTS, Declared, Watched


@asynccontextmanager
async def keeping(api: Watched, declared: Declared, clock: list[float] | None = None) -> AsyncIterator[SliceKeeper]:
    keeper = SliceKeeper(api.client, "tenantry-system", declared, (lambda: clock[0]) if clock else lambda: 1000.0)
    running = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_engine_that_sleeps_is_led_to_the_api_and_its_slice_follows_the_pods_of_that() -> None:
    api, declared = Watched(), Declared()
    api.api("10.0.0.1")
    async with keeping(api, declared):
        await eventually(lambda: api.led == ["10.0.0.1"])
        assert api.held[PATH]["ports"] == [{"name": "http", "port": 8083, "protocol": "TCP"}]
        api.api("10.0.0.2", "10.0.0.3")
        await eventually(lambda: api.led == ["10.0.0.2", "10.0.0.3"])
        api.api()  # an address that another pod may get is not kept
        await eventually(lambda: api.led == [])
        api.api("10.0.0.4")
        await eventually(lambda: api.led == ["10.0.0.4"])
    assert api.writes == 4, "one write for each change of the api"


async def test_it_goes_once_the_engine_is_reached_by_itself_and_not_before() -> None:
    api, declared = Watched(), Declared()
    api.api("10.0.0.1")
    async with keeping(api, declared) as keeper:
        await eventually(lambda: api.led == ["10.0.0.1"])
        api.pod(ready=False)
        declared.state = RUNS
        assert not await keeper.settle(REF)
        assert api.led == ["10.0.0.1"]
        api.pod(ready=True)
        assert await keeper.settle(REF)
        assert api.led is None


@pytest.mark.parametrize("state", [None, STARTS], ids=["its environment is gone", "requests wake it no longer"])
async def test_it_goes_at_once_where_no_request_is_to_wake_the_engine(state: SleepingEngine | None) -> None:
    api, declared = Watched(), Declared()
    api.api("10.0.0.1")
    async with keeping(api, declared):
        await eventually(lambda: api.led == ["10.0.0.1"])
        declared.become(state)
        await eventually(lambda: api.led is None)


async def test_an_engine_that_falls_asleep_has_its_slice_before_and_keeps_it() -> None:
    api, declared, clock = Watched(), Declared(RUNS), [1000.0]
    api.api("10.0.0.1")
    api.pod(ready=True)
    async with keeping(api, declared, clock) as keeper:

        async def made() -> bool:
            await keeper.lead_to_api(replace(REF, tenant_slug="acme", slug="dev"))
            return api.led == ["10.0.0.1"]

        await eventually(made)
        assert not await keeper.settle(REF), "the pass scales the workload after it"
        assert api.led == ["10.0.0.1"]
        clock[0] += STAYS_S  # as if that pass had failed
        assert await keeper.settle(REF)
        assert api.led is None


@pytest.mark.parametrize("addresses", [(), ("10.0.0.1",)], ids=["no api", "an api"])
async def test_a_process_that_starts_writes_only_what_is_not_so(addresses: tuple[str, ...]) -> None:
    api, declared = Watched(), Declared()
    found = ApiAddresses("IPv4", addresses, 8083)
    api.put(PATH, wanted_slice(REF, found))
    if addresses:
        api.api(*addresses)
    async with keeping(api, declared) as keeper:
        declared.become(SLEEPS)
        await eventually(lambda: declared.news.empty())
        await keeper.settle(REF)
    assert (api.writes, api.led) == (0, list(addresses))


async def test_without_an_api_that_wakes_there_is_no_slice() -> None:
    api, declared = Watched(), Declared()
    async with keeping(api, declared) as keeper:
        await keeper.lead_to_api(REF)
        assert await keeper.settle(REF)
    assert api.led is None


async def test_a_slice_that_somebody_removes_or_changes_comes_back() -> None:
    api, declared = Watched(), Declared()
    api.api("10.0.0.1")
    async with keeping(api, declared):
        await eventually(lambda: api.led == ["10.0.0.1"])
        await api.request("DELETE", PATH)
        await eventually(lambda: api.led == ["10.0.0.1"])
        api._stored(PATH, {**api.held[PATH], "endpoints": [{"addresses": ["10.6.6.6"], "conditions": {"ready": True}}]})
        await eventually(lambda: api.led == ["10.0.0.1"])


@dataclass
class Mortal(Watched):
    """One at one of whose writes of the slice the process dies."""

    point: FaultPoint = field(default_factory=FaultPoint)

    async def request(self, method: str, path: str, **rest: Any) -> Document:
        fault = self.point.next() if method != "GET" and path == PATH else None
        if fault is Fault.CRASH_BEFORE:
            raise Crash(str(self.point))
        answer = await super().request(method, path, **rest)
        if fault is Fault.CRASH_AFTER:
            raise Crash(str(self.point))
        return answer


async def lived(api: Mortal, declared: Declared) -> bool:
    """A process in whose time the engine falls asleep, the api has another pod, and the engine runs again. False if it died."""
    keeper = SliceKeeper(api.client, "tenantry-system", declared, lambda: 1000.0)
    running = asyncio.create_task(keeper.run())

    async def come(led: list[str] | None) -> bool:
        await eventually(lambda: api.led == led or running.done())
        return not running.done()

    try:
        declared.become(SLEEPS)
        if not await come(["10.0.0.1"]):
            return False
        api.pod(ready=False)
        api.api("10.0.0.2")
        if not await come(["10.0.0.2"]):
            return False
        api.pod(ready=True)
        declared.become(RUNS)
        return await come(None)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def leads(api: Watched, led: list[str] | None) -> None:
    await eventually(lambda: api.led == led)


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda fault: fault.name)
async def test_a_process_that_is_killed_at_any_write_leaves_what_the_next_one_makes_good(fault: Fault) -> None:
    for at in range(1, 10):
        api, declared = Mortal(point=FaultPoint(at, fault)), Declared(RUNS)
        api.api("10.0.0.1")
        api.pod(ready=True)
        survived = await lived(api, declared)
        newest = ["10.0.0.2"] if "10.0.0.2" in str(api.held) else ["10.0.0.1"]
        wanted = newest if declared.state == SLEEPS else None
        async with keeping(api, declared):
            await leads(api, wanted)
        if survived:
            assert at == 4, "it is made, follows and goes"
            return
    raise AssertionError("it never came to rest")


async def test_engines_of_other_operators_are_left_to_them_and_those_that_are_taken_over_are_looked_at() -> None:
    api, declared, owned = Watched(), Declared(), set[str]()
    api.api("10.0.0.1")
    keeper = SliceKeeper(api.client, "tenantry-system", declared, lambda: 1000.0, lambda ref: ref.namespace in owned)
    for namespaces, led in ((set[str](), None), ({REF.namespace}, ["10.0.0.1"])):
        owned |= namespaces
        running = asyncio.create_task(keeper.run())
        try:
            await eventually(lambda: keeper._api.port)
            await eventually(lambda: api.led == led)  # noqa: B023
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
