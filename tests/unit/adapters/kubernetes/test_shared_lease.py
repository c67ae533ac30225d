"""Replicas that share the work, in virtual time: no shard is acted upon twice, whatever ends when, and none is left for long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.lease import EVERY_S, RENEWS_WITHIN_S, Lease, LeaseLost, StoredLease
from tenantry.adapters.kubernetes.shared_lease import LEDGER, SharedLease
from tenantry.model.sharding.shards import HeldShards
from tenantry.model.verdicts import Halt
from tests.support.virtual_time import run_virtually, virtual_now
from tests.support.waiting import eventually
from tests.unit.adapters.kubernetes.leases import AWAY, LeaseClient, Leases

PLACE = ("tenantry-system", "tenantry-operator")
PATH = "/apis/coordination.k8s.io/v1/namespaces/tenantry-system/leases/tenantry-operator"
TAKES_OVER_S = 20.0
COUNT = 8


class Platform:
    """The replicas, and who acts on which shard."""

    def __init__(self, leases: Leases, seed: int = 0) -> None:
        self.leases = leases
        self.rng = random.Random(seed)
        self.acting: dict[int, str] = {}
        self.replicas: dict[str, Replica] = {}
        self.takes = 0
        self.refusals = 0

    def start(self, name: str, wants: int = COUNT, release: str = "1") -> Replica:
        self.replicas[name] = Replica(self, name, wants, release)
        return self.replicas[name]

    async def all_held(self, count: int = COUNT, within: float = TAKES_OVER_S) -> float:
        """Return the seconds until each shard is acted upon by a replica, and no more are on their way."""
        began = virtual_now()
        await eventually(lambda: self._settled(count), within=within, shows=self._told)
        return virtual_now() - began

    def _told(self) -> object:
        return self.acting, {name: (each.task, each.lease.ledger) for name, each in self.replicas.items()}

    def _settled(self, count: int) -> bool:
        running = [each for each in self.replicas.values() if not each.task.done()]
        sizes = [len(each.lease.held.held) for each in running]
        return bool(sizes) and set(self.acting) == set(range(count)) and max(sizes) - min(sizes) <= 1

    async def end(self) -> None:
        for each in self.replicas.values():
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self.replicas.values()), return_exceptions=True)


class Replica:
    """One process. Its work takes a while to end."""

    def __init__(self, platform: Platform, name: str, wants: int, release: str) -> None:
        self._platform = platform
        self.name = name
        self.client = LeaseClient(platform.leases)
        client = cast(Client, self.client)
        held = HeldShards()
        self.lease = SharedLease(client, PLACE, name, wants=wants, release=release, held=held, clock=virtual_now)
        self.looked = True
        self.drains_s = 0.3
        self.killed = self.ends = False
        self.task = asyncio.create_task(self._run())

    async def give(self, shards: frozenset[int]) -> None:
        await asyncio.sleep(self._platform.rng.uniform(0, self.drains_s))
        self._stop(shards)

    async def take(self, shards: frozenset[int]) -> None:
        if self._platform.refusals:
            self._platform.refusals -= 1
            raise AWAY
        for shard in shards:
            assert shard not in self._platform.acting, f"{self.name} and {self._platform.acting[shard]} act on shard {shard}"
            self._platform.acting[shard] = self.name
        self._platform.takes += len(shards)

    def end(self) -> None:
        """As by SIGTERM: a second one changes nothing."""
        if not self.ends:
            self.task.cancel()
        self.ends = True

    def kill(self) -> None:
        """As by SIGKILL: nothing is let go."""
        self.killed = True
        self.task.cancel()
        self._stop(frozenset(self._platform.acting))

    async def _run(self) -> None:
        try:
            await self.lease.join()
            await self.lease.keep(self)
        finally:
            self.ends = True
            if not self.killed:
                await asyncio.sleep(self._platform.rng.uniform(0, 1.0))
                self._stop(frozenset(self._platform.acting))
                await self.lease.leave()

    def _stop(self, shards: frozenset[int]) -> None:
        for shard in shards:
            if self._platform.acting.get(shard) == self.name:
                del self._platform.acting[shard]


def test_one_replica_takes_all() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        first = platform.start("a")
        assert await platform.all_held() < 1
        assert first.lease.held.held == frozenset(range(COUNT))
        await platform.end()

    run_virtually(story())


def test_shards_are_shared_when_replicas_come_and_go() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        for name in "abc":
            platform.start(name)
            await platform.all_held()
        sizes = sorted(len(each.lease.held.held) for each in platform.replicas.values())
        assert sizes == [2, 3, 3]
        leaving = platform.replicas.pop("b")
        leaving.task.cancel()
        assert await platform.all_held() < 5, "who ends by itself hands over at once"
        await platform.end()

    run_virtually(story())


@pytest.mark.parametrize("seed", range(20))
def test_the_shards_of_a_killed_replica_are_taken_over_in_time(seed: int) -> None:
    async def story() -> float:
        platform = Platform(Leases(seed), seed)
        for name in "abc":
            platform.start(name)
        await platform.all_held()
        await asyncio.sleep(platform.rng.uniform(0, 10))
        platform.replicas.pop(platform.rng.choice("abc")).kill()
        took = await platform.all_held()
        await platform.end()
        return took

    assert 10 < run_virtually(story()) < TAKES_OVER_S - 1


def test_a_process_of_the_same_name_continues_at_once() -> None:
    """A container that is started again in its pod: the former process of that name is gone."""

    async def story() -> None:
        platform = Platform(Leases())
        platform.start("a")
        platform.start("b")
        await platform.all_held()
        platform.replicas.pop("a").kill()
        platform.start("a")
        assert await platform.all_held() < 5
        await platform.end()

    run_virtually(story())


def test_who_cannot_renew_ends_its_work_before_others_take_it() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        cut_off = platform.start("a")
        platform.start("b")
        await platform.all_held()
        cut_off.client.away = True
        await asyncio.wait([cut_off.task])
        with pytest.raises(LeaseLost):
            cut_off.task.result()
        assert not cut_off.lease.held.held
        del platform.replicas["a"]
        await platform.all_held()
        await platform.end()

    run_virtually(story())


def test_a_shard_stays_with_its_replica_until_its_last_pass_has_ended() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        slow = platform.start("a")
        await platform.all_held()
        slow.drains_s = 25.0
        platform.start("b")
        await platform.all_held(within=40.0)
        assert not slow.task.done(), "it renewed meanwhile"
        await platform.end()

    run_virtually(story())


def test_work_that_does_not_end_ends_with_its_process() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        stuck = platform.start("a")
        await platform.all_held()
        stuck.drains_s = 10_000.0
        platform.start("b")
        with pytest.raises(LeaseLost, match="did not end within 30 s"):
            await asyncio.wait_for(stuck.task, 60.0)
        del platform.replicas["a"]
        await platform.all_held()
        await platform.end()

    run_virtually(story())


@pytest.mark.parametrize("seed", range(5))
def test_a_new_number_counts_once_all_replicas_want_it_and_hold_nothing(seed: int) -> None:
    async def story() -> None:
        platform = Platform(Leases(seed), seed)
        for name in "ab":
            platform.start(name)
        await platform.all_held()
        platform.start("c", wants=3)
        await platform.all_held()
        assert platform.replicas["c"].lease.held.count == COUNT, "the earlier number still counts"
        for name in "ab":
            platform.replicas.pop(name).task.cancel()
        platform.start("d", wants=3)
        await platform.all_held(3)
        assert {each.lease.held.count for each in platform.replicas.values()} == {3}
        await platform.end()

    run_virtually(story())


def test_a_holder_of_everything_and_replicas_wait_for_each_other() -> None:
    """The change from one shard to many and back, during which processes of both settings run."""

    async def story() -> None:
        platform = Platform(Leases())
        alone = Lease(cast(Client, LeaseClient(platform.leases)), *PLACE, "old", virtual_now)
        await alone.acquire()
        keeping = asyncio.create_task(alone.keep())
        platform.start("a")
        platform.start("b")
        await asyncio.sleep(60)
        assert not platform.acting
        keeping.cancel()
        await asyncio.wait([keeping])
        await alone.release()
        assert await platform.all_held() < 10
        acquiring = asyncio.create_task(alone.acquire())
        await asyncio.sleep(60)
        assert not acquiring.done()
        await platform.end()
        await asyncio.wait_for(acquiring, 5)
        assert alone.held

    run_virtually(story())


def test_a_holder_of_everything_that_was_killed_is_replaced_by_replicas() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        alone = Lease(cast(Client, LeaseClient(platform.leases)), *PLACE, "old", virtual_now)
        await alone.acquire()
        platform.start("a")
        assert await platform.all_held() > 10
        await platform.end()

    run_virtually(story())


Call = Callable[[], Coroutine[Any, Any, None]]


class Stops:
    """The clock of a process, and its way to the leases. It may be stopped while an answer is on its way."""

    def __init__(self) -> None:
        self.client = LeaseClient(Leases())
        self.seconds = self.during_an_answer = 0.0

    def clock(self) -> float:
        return virtual_now() + self.seconds

    async def request(self, method: str, path: str, *, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = await self.client.request(method, path, body=body)
        self.seconds += self.during_an_answer
        return answer


class NoWork:
    looked = True

    async def give(self, shards: frozenset[int]) -> None: ...
    async def take(self, shards: frozenset[int]) -> None: ...


def candidates(stops: Stops) -> tuple[tuple[StoredLease, Call, Call], ...]:
    """Each kind of lease, with its ways to begin and to go on."""
    client = cast(Client, stops)
    alone = Lease(client, *PLACE, "a", stops.clock)
    shared = SharedLease(client, PLACE, "b", wants=COUNT, release="1", held=HeldShards(), clock=stops.clock)
    return (alone, alone.acquire, alone.keep), (shared, shared.join, lambda: shared.keep(NoWork()))


@pytest.mark.parametrize("while_asking", [False, True])
@pytest.mark.parametrize("kind", [0, 1], ids=["alone", "shared"])
def test_a_process_that_was_stopped_may_do_nothing_before_it_has_renewed(kind: int, while_asking: bool) -> None:
    async def story() -> None:
        stops = Stops()
        lease, begin, keep = candidates(stops)[kind]
        with pytest.raises(Halt, match="LeaseNotRenewed"):
            lease.check()
        await begin()
        lease.check()
        keeping = asyncio.create_task(keep())
        await asyncio.sleep(60)
        lease.check()
        if while_asking:
            stops.during_an_answer = RENEWS_WITHIN_S
            await asyncio.sleep(2 * EVERY_S)  # an answer that waited for the process is as old as its request
        else:
            stops.seconds += RENEWS_WITHIN_S
        with pytest.raises(Halt, match="LeaseNotRenewed"):
            lease.check()
        keeping.cancel()
        await asyncio.wait([keeping])

    run_virtually(story())


def test_work_that_cannot_begin_yet_is_tried_again() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        platform.refusals = 3
        platform.start("a")
        await platform.all_held()
        assert platform.refusals == 0
        await platform.end()

    run_virtually(story())


def test_who_is_thrown_out_ends() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        one = platform.start("a")
        await platform.all_held()
        platform.leases.held[PATH]["spec"]["holderIdentity"] = "thief"
        platform.leases.held[PATH]["metadata"]["resourceVersion"] = "stolen"
        with pytest.raises(LeaseLost, match="another process holds the lease"):
            await one.task

    run_virtually(story())


def test_an_unknown_ledger_is_left_alone_while_it_is_renewed() -> None:
    """Of a later release, whose shards may be others."""

    async def story() -> None:
        platform = Platform(Leases())
        body: dict[str, Any] = {"metadata": {"name": PLACE[1], "annotations": {LEDGER: '{"form": 2}'}}}
        body["spec"] = {"holderIdentity": LEDGER}
        platform.leases.answer("POST", PATH.rpartition("/")[0], body)
        platform.start("a")
        for _ in range(20):
            await asyncio.sleep(2)
            platform.leases.answer("PUT", PATH, platform.leases.answer("GET", PATH, None))
        assert not platform.acting
        await platform.all_held()
        await platform.end()

    run_virtually(story())


def test_every_object_was_looked_at_once_all_replicas_of_a_release_say_so() -> None:
    async def story() -> None:
        platform = Platform(Leases())
        first, second = platform.start("a"), platform.start("b")
        second.looked = False
        await platform.all_held()
        await asyncio.sleep(5)
        assert not first.lease.others_looked()
        second.looked = True
        await asyncio.sleep(5)
        assert first.lease.others_looked()
        platform.start("c", release="2")
        await platform.all_held()
        await asyncio.sleep(5)
        assert not first.lease.others_looked(), "a shard is with another release"
        await platform.end()

    run_virtually(story())


@pytest.mark.parametrize("seed", range(30))
def test_whatever_ends_or_is_cut_off_no_shard_is_acted_upon_twice(seed: int) -> None:
    """Replicas are started, ended, killed and cut off at random, and answers are slow or lost."""

    async def story() -> None:
        rng = random.Random(seed)
        platform = Platform(Leases(seed, slow=rng.choice([0.02, 0.5]), lossy=rng.choice([0.0, 0.1])), seed)
        for number in range(25):
            running = {name: each for name, each in platform.replicas.items() if not each.task.done()}
            event = rng.choice(["start", "start", "end", "kill", "cut", "mend"]) if running else "start"
            one = running[rng.choice(sorted(running))] if running else None
            if event == "start" and len(running) < 5:
                platform.start(f"r{number}", wants=rng.choice([COUNT, COUNT, 3]))
            elif one is not None and event == "end":
                one.end()
            elif one is not None and event == "kill":
                one.kill()
            elif one is not None and event in ("cut", "mend"):
                one.client.away = event == "cut"
            await asyncio.sleep(rng.choice([0.1, 1.0, 5.0, 20.0]))
        for each in platform.replicas.values():
            each.end()
            with suppress(asyncio.CancelledError, LeaseLost):
                await each.task
        platform.replicas.clear()
        platform.leases.lossy = 0.0
        platform.start("last")
        await platform.all_held(within=2 * TAKES_OVER_S)
        assert platform.takes > COUNT
        await platform.end()

    run_virtually(story())
