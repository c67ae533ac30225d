"""Two operators that each miss the other's write give one host to two: the younger gives it up, and has it back later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.bootstrap.pass_ports import Ports
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import Document, Ref, held_of, ref_of
from tests.crash.faulty_feed import FaultyFeed
from tests.crash.watched_platform import SETTLES_S, Cluster, Watched, document, environment, sharing

LAG_S = 1.0
"""So late does each operator learn of the other's writes: both have served by then."""


class Meeting:
    """A deployer whose first deployment waits until that of the other operator has begun as well."""

    def __init__(self, port: Any, barrier: asyncio.Barrier) -> None:
        self._port = port
        self._barrier: asyncio.Barrier | None = barrier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            async with asyncio.timeout(SETTLES_S):
                await barrier.wait()
        await self._port.deploy(spec, admin_secret, keeps_pod)


@dataclass
class Race:
    """The store and two operators over the same engines."""

    cluster: Cluster
    operators: Sequence[Watched]

    async def settled(self) -> None:
        """Return once both have seen everything, also each other's answers to it."""
        for operator in (*self.operators, *self.operators):
            await operator.settled()

    async def got(self, kind: str, namespace: str, name: str) -> Document:
        return await self.cluster.store.get(Ref(kind, namespace, name))

    async def engine(self, of: Document) -> EngineFacts:
        metadata = of["metadata"]
        found = await self.operators[0].platform.ports.deployer.engine(
            EngineRef(metadata["namespace"], metadata["name"], metadata["uid"])
        )
        assert found is not None
        return found

    async def serves(self, tenant_slug: str, slug: str) -> str:
        """The id of the environment whose engine answers at the path of those slugs."""
        hosting = self.operators[0].platform.hosting
        async with httpx.AsyncClient(transport=httpx.ASGITransport(hosting), base_url="http://here") as client:
            assert (await client.get(f"/e/{tenant_slug}/{slug}/healthz")).status_code == 200
        record = hosting._folders.route(tenant_slug, slug)
        return record.ref.id if record is not None else ""

    async def declare(self, declared: Document) -> None:
        """Write the declaration as another process does."""
        await self.cluster._write(ref_of(declared), declared)

    async def remove(self, of: Document) -> None:
        await self.cluster.store.delete(
            held_of(await self.got("Environment", of["metadata"]["namespace"], of["metadata"]["name"]))
        )


def stalled(of: Document) -> tuple[str, str]:
    """The reason and the message of its condition Stalled, empty where it has none."""
    told = next((each for each in of["status"]["conditions"] if each["type"] == "Stalled"), {"reason": "", "message": ""})
    return told["reason"], told["message"]


@asynccontextmanager
async def race(folder: Path, before: list[Document], kind: str, edits: tuple[Document, Document]) -> AsyncIterator[Race]:
    """Declare `before`, then start two operators, each of which sees one of the two edits of objects of a kind."""
    cluster = Cluster(folder / "first")
    async with cluster.operator() as operator:
        await cluster.declare(before)
        await operator.settled()
    cluster.made.clear()
    old = {each["metadata"]["name"]: each for each in (await cluster.store.list(kind))[0]}
    for edit in edits:
        await cluster._write(ref_of(edit), edit)
    new, version = await cluster.store.list(kind)
    names = [edit["metadata"]["name"] for edit in edits]

    def feed(missed: str) -> FaultyFeed:
        lists = {kind: ([old[missed] if each["metadata"]["name"] == missed else each for each in new], version)}
        return FaultyFeed(cluster.store, lag_s=LAG_S, stale=lists)  # type: ignore[arg-type]

    barrier = asyncio.Barrier(2)

    def meeting(ports: Ports) -> Ports:
        return replace(ports, deployer=Meeting(ports.deployer, barrier))

    async with AsyncExitStack() as held:
        first = await held.enter_async_context(cluster.operator(feed(names[1]), through=meeting))
        other = Cluster(folder / "second", cluster.store, cluster.made)
        shared = other.operator(feed(names[0]), through=lambda ports: meeting(sharing(ports, first)))
        second = await held.enter_async_context(shared)
        running = Race(cluster, (first, second))
        await running.settled()
        yield running


BASE = [document("Region", "eu"), document("Tenant", "orchid", displayName="Orchid")]
NAMES = ("orchid", "violet")


def by_age(found: Sequence[Document]) -> list[Document]:
    """The elder first; of two of the same second the one with the smaller uid."""
    return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["uid"]))


@pytest.mark.slow
async def test_of_two_environments_that_both_got_a_slug_the_younger_gives_its_host_up_and_gets_it_back(tmp_path: Path) -> None:
    before = [*BASE, *(environment("orchid", name) for name in NAMES)]
    one, two = (environment("orchid", name, slug="prize") for name in NAMES)
    async with race(tmp_path, before, "Environment", (one, two)) as now:
        winner, loser = by_age([await now.got("Environment", "tenant-orchid", name) for name in NAMES])
        assert now.cluster.made == {}, "no engine is made again"
        assert (stalled(winner), winner["status"]["slug"]) == (("", ""), "prize")
        reason, message = stalled(loser)
        assert (reason, loser["status"].get("slug"), loser["status"].get("url")) == ("SlugTaken", None, None)
        assert "'prize'" in message
        assert winner["metadata"]["name"] not in message
        assert (await now.engine(winner)).route == ("prize", "orchid")
        assert ((await now.engine(loser)).route, (await now.engine(loser)).missing) == (None, "")
        assert await now.serves("orchid", "prize") == winner["metadata"]["uid"]
        await now.remove(winner)
        await now.settled()
        loser = await now.got("Environment", "tenant-orchid", loser["metadata"]["name"])
        assert (stalled(loser), loser["status"]["slug"]) == (("", ""), "prize")
        assert loser["status"]["url"].endswith("/e/orchid/prize")
        assert await now.serves("orchid", "prize") == loser["metadata"]["uid"]


@pytest.mark.slow
async def test_of_two_tenants_that_both_got_a_slug_the_younger_keeps_no_host_of_the_elder(tmp_path: Path) -> None:
    before = [BASE[0], *(document("Tenant", name) for name in NAMES), *(environment(name, "dev") for name in NAMES)]
    one, two = (document("Tenant", name, slug="prize") for name in NAMES)
    async with race(tmp_path, before, "Tenant", (one, two)) as now:
        winner, loser = (each["metadata"]["name"] for each in by_age([await now.got("Tenant", "", name) for name in NAMES]))
        lost = await now.got("Tenant", "", loser)
        mine, theirs = [await now.got("Environment", f"tenant-{name}", "dev") for name in (winner, loser)]
        assert (stalled(lost)[0], lost["status"].get("slug")) == ("SlugTaken", None)
        assert (stalled(mine), (await now.engine(mine)).route) == (("", ""), ("dev", "prize"))
        reason, message = stalled(theirs)
        assert (reason, (await now.engine(theirs)).route, theirs["status"].get("url")) == ("TenantSlugTaken", None, None)
        assert winner not in message
        assert await now.serves("prize", "dev") == mine["metadata"]["uid"]
        await now.declare(document("Tenant", loser, slug="other"))
        await now.settled()
        theirs = await now.got("Environment", f"tenant-{loser}", "dev")
        assert (stalled(theirs), theirs["status"]["slug"], theirs["status"]["tenantSlug"]) == (("", ""), "dev", "other")
        assert await now.serves("other", "dev") == theirs["metadata"]["uid"]
