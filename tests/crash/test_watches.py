"""Watches that break, repeat, expire, stall, lag or start from an older state: the end is the same, and no engine is made twice.

A failure names its place; `TENANTRY_WATCH_POINT=<place> pytest tests/crash/test_watches.py -m ''` runs it alone.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tenantry.model.resource import Ref, held_of
from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.crash.faulty_feed import FaultyFeed, WatchFault
from tests.crash.watched_platform import Cluster, Moment, document, environment
from tests.support.watched_story import tell, told

REPLAY = os.environ.get("TENANTRY_WATCH_POINT", "")
SEED = int(os.environ.get("TENANTRY_SEED", "20261123"))
EVERY = at_full(1, otherwise=23)
"""The fast tier strikes at every 23rd event only."""
LAGGING = at_full(50, otherwise=3)
LAGS_S = (10.0, 60.0) if LAGGING == 50 else (0.1, 0.4)
STALE_S = 0.3
"""For so long the older state is all that the operator sees."""


# R4


@pytest.mark.slow
@pytest.mark.parametrize("fault", WatchFault, ids=lambda fault: fault.name)
async def test_the_end_is_the_same_whatever_befalls_a_watch_at_any_event(fault: WatchFault, tmp_path: Path, tried: Tried) -> None:
    reference, counted = await tell(tmp_path / "reference")
    assert counted.events > 40
    for at in range(1, counted.events + 1, EVERY):
        place = f"{fault.name}:{at}"
        if REPLAY and place != REPLAY:
            continue
        try:
            end, feed = await tell(tmp_path / f"{at}", lambda store: FaultyFeed(store, at, fault))  # noqa: B023
        except (TimeoutError, AssertionError) as error:
            raise AssertionError(f"{error!r}; replay: TENANTRY_WATCH_POINT={place}") from error
        if not feed.struck:
            break  # how many statuses share an event differs from run to run
        assert end == reference, f"replay: TENANTRY_WATCH_POINT={place}"
        tried()


# R3


DEV = Ref("Environment", "tenant-acme", "dev")


async def replaced(cluster: Cluster) -> list[Moment]:
    """The store's objects after each write, while objects came, went, and came again under the same names."""
    moments = cluster.recorded()
    async with cluster.operator() as operator:
        for chapter in ("create", "delete", "create"):
            await cluster.declare(told(chapter))
            await operator.settled()
        await cluster.store.delete(held_of(await cluster.store.get(DEV))._replace(version=""))
        await cluster.gone(DEV)
        await cluster.declare(told("edit"))
        await operator.settled()
    return moments


@pytest.mark.slow
async def test_a_restart_that_sees_an_older_state_makes_no_engine_again(tmp_path: Path, tried: Tried) -> None:
    """The next operator's lists are of any moment of the past; its watches show the rest soon after."""
    recorder = Cluster(tmp_path / "recorded")
    moments = await replaced(recorder)
    assert len(moments) >= 60
    assert set(recorder.made.values()) == {1}
    reference = await _restarted(recorder.copy(tmp_path / "reference"), {})
    for number in range(0, len(moments), EVERY):
        if REPLAY and f"stale:{number}" != REPLAY:
            continue
        replay = f"replay: TENANTRY_WATCH_POINT=stale:{number}"
        cluster = recorder.copy(tmp_path / "copy")
        end = await _restarted(cluster, moments[number])
        assert cluster.made == recorder.made, f"an engine was made again; {replay}"
        for part in ("objects", "engines", "files"):
            assert end[part] == reference[part], f"{part}; {replay}"
        assert _created(end) == _created(reference), replay
        tried()


def _created(end: dict[str, Any]) -> list[Any]:
    """The Operations by which something was made; a drift that an older state shows may be corrected."""
    return [each for each in end["operations"] if each[0][0].startswith("CREATE_")]


async def _restarted(cluster: Cluster, stale: Moment) -> dict[str, Any]:
    feed = FaultyFeed(cluster.store, lag_s=STALE_S if stale else 0, stale=dict(stale))
    async with cluster.operator(feed) as operator:
        await operator.settled()
        return await operator.portrait()


# R3b


async def _under_lag(folder: Path, lag_s: float, restarts: bool) -> None:
    """An environment is created, edited, deleted and created again, by the platform's own writes, before any event comes."""
    cluster = Cluster(folder)
    uids = []
    async with cluster.operator(FaultyFeed(cluster.store, lag_s=lag_s)) as operator:
        write = operator.platform.state.writing
        for each in (document("Region", "eu"), document("Tenant", "acme")):
            await write.create(each)
        await operator.platform.runtime.idle()
        for turn in range(2):
            uids.append((await write.create(environment("acme", "dev")))["metadata"]["uid"])
            await operator.platform.runtime.idle()
            there = await cluster.store.get(DEV)
            edited = {**there, "spec": {**there["spec"], "slug": "develop"}}
            await write.replace(edited, there["metadata"]["resourceVersion"])
            await operator.platform.runtime.idle()
            if turn == 0:
                await write.delete(held_of(await cluster.store.get(DEV))._replace(version=""))
                await operator.platform.runtime.idle()
                await cluster.gone(DEV)
        if not restarts:
            await operator.settled(3 * lag_s + 60)
    if restarts:
        async with cluster.operator(FaultyFeed(cluster.store, lag_s=lag_s)) as operator:
            await operator.settled(3 * lag_s + 60)
    assert dict(cluster.made) == dict.fromkeys(uids, 1), f"lag {lag_s:.1f} s"
    operations = (await cluster.store.list("Operation"))[0]
    created = [each["spec"]["target"]["uid"] for each in operations if each["spec"]["action"] == "CREATE_ENVIRONMENT"]
    assert sorted(created) == sorted(uids), f"lag {lag_s:.1f} s"
    assert cluster.engines() == [uids[1]]
    status = (await cluster.store.get(DEV))["status"]
    assert (status["phase"], status["slug"]) == ("READY", "develop")


async def test_a_watch_that_lags_makes_one_engine_each(tmp_path: Path, tried: Tried) -> None:
    lags = [random.Random(SEED + number).uniform(*LAGS_S) for number in range(LAGGING)]
    runs = [_under_lag(tmp_path / f"{number}", lag_s, number % 2 == 1) for number, lag_s in enumerate(lags)]
    for ended in await asyncio.gather(*runs, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended
        tried()
