"""Declarations, edits, deletions, restarts and faults in any order, chosen by hypothesis: what was declared is what comes about.

A failure prints its steps and the command that repeats them.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.model.resource import Document, Ref, Resource, held_of, ref_of
from tenantry.model.verdicts import NotFound
from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.crash import watched_platform
from tests.crash.campaign import Doom
from tests.crash.faulty_feed import FaultyFeed, WatchFault
from tests.crash.watched_platform import Cluster, Watched, document, environment, secret
from tests.support.store_faults import Crash, Fault

STEPS = at_full(4_500, otherwise=60)
SEED = int(os.environ.get("TENANTRY_SEED", "20261123"))
EXAMPLES = at_full(10, otherwise=4)
A_RUN = at_full(50, otherwise=20)
MOST_RUNS = 30
"""Runs in which a control that is off must show. Most need one; what strikes when differs with the machine's load."""
TENANTS, ENVIRONMENTS = st.sampled_from(["red", "blue"]), st.sampled_from(["dev", "live"])
SETTLES_S = 30.0
KINDS = ("Tenant", "Environment", "Identity")


class Machine(RuleBasedStateMachine):
    """A platform that is declared to, struck and started again. wanted: what is declared, with the uid that the store gave it."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.cluster = Cluster(Path(self.folder.name) / "state")
        self.wanted: dict[Ref, Document] = {}
        self.held = AsyncExitStack()
        self.operator: Watched | None = None

    def _does(self, work: Callable[[], Awaitable[Any]]) -> None:
        type(self).steps += 1
        self.loop.run_until_complete(self._within(work))

    async def _within(self, work: Callable[[], Awaitable[Any]]) -> None:
        async with asyncio.timeout(3 * SETTLES_S):
            await self._alive()
            await work()

    @initialize()
    def begin(self) -> None:
        """A region, and an operator."""
        self._does(lambda: self.cluster.store.create(document("Region", "eu")))

    # What people do

    @rule(tenant=TENANTS, name=st.sampled_from(["", "Red", "Blue"]))
    def declare_tenant(self, tenant: str, name: str) -> None:
        """Create it, or edit it."""
        self._does(lambda: self._declare(document("Tenant", tenant, **({"displayName": name} if name else {}))))

    @rule(tenant=TENANTS, name=ENVIRONMENTS, slug=st.sampled_from(["", "one", "two"]))
    def declare_environment(self, tenant: str, name: str, slug: str) -> None:
        """Create it or edit it, where its tenant is declared."""
        if Ref("Tenant", "", tenant) in self.wanted:
            spec = {"slug": f"{name}-{slug}"} if slug else {}
            self._does(lambda: self._declare(environment(tenant, name, **spec)))

    @rule(tenant=TENANTS, name=ENVIRONMENTS, password=st.sampled_from(["a first password", "a second password"]))
    def declare_identity(self, tenant: str, name: str, password: str) -> None:
        """A user of the engine, and the Secret."""
        if Ref("Environment", f"tenant-{tenant}", name) not in self.wanted:
            return
        namespace = f"tenant-{tenant}"
        who = {"environment": name, "username": "ann", "passwordSecretRef": {"name": f"{name}-ann", "key": "password"}}

        async def both() -> None:
            await self.cluster._write(Ref("Secret", namespace, f"{name}-ann"), secret(namespace, f"{name}-ann", password))
            await self._declare(document("Identity", f"{name}-ann", namespace, **who))

        self._does(both)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Any declared object, and wait until it is gone."""
        if self.wanted:
            ref = data.draw(st.sampled_from(sorted(self.wanted)))
            self._does(lambda: self._delete(ref))

    # What happens

    @rule(fault=st.sampled_from(list(Fault)), after=st.integers(1, 12))
    def strike_a_write(self, fault: Fault, after: int) -> None:
        """One of the next writes or effects fails, or the process dies there."""

        async def arm() -> None:
            assert self.operator is not None
            self.operator.doom.at, self.operator.doom.fault = self.operator.doom.writes + after, fault

        self._does(arm)

    @rule(fault=st.sampled_from(list(WatchFault)), after=st.integers(1, 12))
    def strike_a_watch(self, fault: WatchFault, after: int) -> None:
        """One of the next events does not come as it should."""

        async def arm() -> None:
            assert self.operator is not None
            self.operator.feed.at, self.operator.feed.fault = self.operator.feed.events + after, fault

        self._does(arm)

    @rule(lag_s=st.sampled_from([0.0, 0.02, 0.1]))
    def restart(self, lag_s: float) -> None:
        """Another operator, whose watches may lag."""

        async def again() -> None:
            await self._end()
            await self._start(lag_s)

        self._does(again)

    @rule()
    def settle(self) -> None:
        """The faults are over: everything is as declared."""
        self._does(self._settled)

    def teardown(self) -> None:
        """Delete everything: nothing is left."""
        try:
            self.loop.run_until_complete(self._within(self._all_gone))
        finally:
            self.loop.run_until_complete(self._end())
            self.loop.close()
            self.folder.cleanup()

    # How

    async def _declare(self, wanted: Document) -> None:
        ref = ref_of(wanted)
        await self._while_alive(self.cluster._write(ref, wanted))
        self.wanted[ref] = {**wanted, "uid": (await self.cluster.store.get(ref))["metadata"]["uid"]}

    async def _delete(self, ref: Ref) -> None:
        await self.cluster.store.delete(held_of(await self.cluster.store.get(ref))._replace(version=""))
        await self._while_alive(self.cluster.gone(ref))
        self.wanted = {each: wanted for each, wanted in self.wanted.items() if not _goes_with(each, ref, wanted)}

    async def _while_alive(self, work: Awaitable[None]) -> None:
        """Runs a step that needs an operator; one that dies is started again."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait((task,), timeout=0.05)
            await self._alive()
        await task

    async def _alive(self) -> None:
        if self.operator is None or self.operator.doom.died.is_set():
            await self._end()
            await self._start()

    async def _start(self, lag_s: float = 0.0) -> None:
        self.operator = await self.held.enter_async_context(
            self.cluster.operator(FaultyFeed(self.cluster.store, lag_s=lag_s, stall_s=0.1), Doom())
        )

    async def _end(self) -> None:
        with suppress(Crash):  # what it was doing when it died
            await self.held.aclose()
        self.held, self.operator = AsyncExitStack(), None

    async def _settled(self) -> None:
        await self._quiet()
        found = {kind: {ref_of(each): each for each in (await self.cluster.store.list(kind))[0]} for kind in KINDS}
        assert {ref for each in found.values() for ref in each} == set(self.wanted), "what is there is what was declared (I1)"
        for ref, wanted in self.wanted.items():
            there = found[ref.kind][ref]
            assert there["metadata"]["uid"] == wanted["uid"], f"{ref} is another object (I1)"
            assert wanted["spec"].items() <= there["spec"].items(), f"{ref} is not as declared (I1)"
            status = there["status"]
            assert status["observedGeneration"] == there["metadata"]["generation"], f"{ref} is not seen (I2)"
            ready = {each["type"]: each["status"] for each in status["conditions"]}
            assert ready["Ready"] == "True", f"{ref} is not Ready (I2): {status['conditions']}"
        assert set(self.cluster.made.values()) <= {1}, f"engines by id (I3): {self.cluster.made}"
        environments = [each["metadata"]["uid"] for each in found["Environment"].values()]
        assert self.cluster.engines() == sorted(environments), "engines are those of the environments (I4)"
        before = self.cluster.store.version
        assert self.operator is not None
        self.operator.platform.runtime.resync()
        await self._quiet()
        assert self.cluster.store.version == before, "looking at everything again writes something (I2)"

    async def _quiet(self) -> None:
        """No fault is left, and nothing is left to do."""
        await self._alive()
        assert self.operator is not None
        self.operator.doom.at = self.operator.feed.at = 0
        await self.operator.settled(SETTLES_S)

    async def _all_gone(self) -> None:
        await self._settled()
        for ref in sorted(each for each in self.wanted if each.kind == "Tenant"):
            await self._delete(ref)
        await self._settled()
        assert self.cluster.engines() == []
        secrets = [each["metadata"]["namespace"] for each in (await self.cluster.store.list("Secret"))[0]]
        assert [each for each in secrets if each.startswith("tenant-")] == []
        for ref in self.wanted:
            with pytest.raises(NotFound):
                await self.cluster.store.get(ref)


def _goes_with(ref: Ref, deleted: Ref, wanted: Document) -> bool:
    if deleted.kind == "Tenant":
        return ref == deleted or ref.namespace == f"tenant-{deleted.name}"
    in_it = ref.namespace == deleted.namespace and wanted["spec"].get("environment") == deleted.name
    return ref == deleted or (deleted.kind == "Environment" and in_it)


def run(number: int) -> None:
    """One run of some examples."""
    chosen = settings(
        max_examples=EXAMPLES,  # the first is always the simplest
        stateful_step_count=A_RUN,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        print_blob=False,
    )

    @seed(SEED + number)
    class Seeded(Machine):
        """The machine of one seed."""

    Seeded.TestCase.settings = chosen
    run_state_machine_as_test(Seeded, settings=chosen)
    Machine.steps += Seeded.steps


@pytest.mark.slow
def test_what_was_declared_comes_about_whatever_happens(tried: Tried) -> None:
    number = 0
    while tried.count < STEPS:
        Machine.steps = 0
        try:
            run(number)
        except BaseException as error:
            error.add_note(f"replay: TENANTRY_CAMPAIGN=full TENANTRY_SEED={SEED + number}")
            raise
        tried(Machine.steps)
        number += 1


@pytest.mark.slow
@pytest.mark.parametrize("control", ["finalizers", "engines go with their environments"])
def test_r10_without_a_control_it_fails(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, ref: Any) -> None:
        return None

    if control == "finalizers":
        monkeypatch.setattr(Resource, "FINALIZED", False)
    else:
        monkeypatch.setattr(LocalDeployer, "undeploy", nothing)
    monkeypatch.setattr(watched_platform, "SETTLES_S", 3.0)
    monkeypatch.setitem(globals(), "SETTLES_S", 3.0)
    with pytest.raises(BaseException):  # noqa: B017 - hypothesis may group what failed
        for number in range(MOST_RUNS):
            run(number)
