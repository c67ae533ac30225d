"""Following Sources beside the passes: a failure is reported and can be begun again; nothing waits for a slow remote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Ref
from tenantry.model.tree import Revision, Tree
from tenantry.model.verdicts import Halt, Invalid, Problem, Stalled, Transient
from tenantry.runtime.cache import Cache
from tenantry.runtime.following.following import SourceFollowing
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.support.followed_sources import SOURCE, TIP, Kit, Remotes, order
from tests.support.patience import DEADLINE_S
from tests.unit.runtime.held_data import no_data


def fails(error: Exception) -> Callable[[], Any]:
    def read() -> Any:
        raise error

    return read


def empty() -> Tree:
    return Tree(revision=Revision(TIP))


async def never() -> Tree:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    cache, remotes, news = Cache(TYPES), Remotes([empty]), asyncio.Queue[Ref]()
    store = WritingStore(MemoryStore(Admission()), cache)
    following = SourceFollowing(store, cache, remotes, frozenset(), news.put_nowait, no_data)
    yield Kit(following, remotes, cache, store, news)
    await following.aclose()
    assert remotes.under_way == 0


async def test_what_was_read_is_told_under_the_order_that_it_was_read_for(kit: Kit) -> None:
    await kit.following.follow(order())
    facts = await kit.told()
    assert (facts.order, facts.revision, facts.settled, facts.failure) == (order(), TIP, TIP, None)
    assert kit.following.look(SOURCE, "another incarnation") is None


async def test_another_request_reads_again_and_another_setting_opens_again(kit: Kit) -> None:
    await kit.following.follow(order())
    await kit.told()
    await kit.following.follow(order())
    await kit.following.follow(order(asked="now"))
    assert (await kit.told()).order == order(asked="now")
    assert kit.remotes.opened == 1
    await kit.following.follow(order(path="deploy"))
    assert (await kit.told()).order == order(path="deploy")
    assert kit.remotes.opened == 2


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (OSError(28, "No space left on device"), Transient("DiskFailed", "[Errno 28] No space left on device")),
        (Invalid((Problem("spec.url", "is none"),)), Stalled("Invalid", "spec.url: is none")),
    ],
    ids=["a full disk", "a refusal"],
)
async def test_a_failure_is_told_and_following_can_be_begun_again(kit: Kit, error: Exception, failure: Any) -> None:
    kit.remotes.reads = [fails(error), empty]
    await kit.following.follow(order())
    facts = await kit.told()
    assert (facts.failure, facts.ended) == (failure, None)
    await kit.following.follow(order())
    assert (await kit.told()).failure is None


async def test_a_bug_becomes_a_problem_of_the_source_and_the_next_read_ends_it(kit: Kit) -> None:
    kit.remotes.reads = [fails(KeyError("a bug")), empty]
    await kit.following.follow(order())
    facts = await kit.told()
    assert facts.failure is None
    assert len(facts.problems) == 1
    assert facts.problems[0].startswith("source: not read, the last good state stays: a bug of the platform: KeyError")
    assert (await kit.told()).problems == ()


async def test_a_slow_remote_is_waited_for_by_nobody_and_ends_when_it_is_stopped(kit: Kit) -> None:
    kit.remotes.reads = [never, empty]
    async with asyncio.timeout(DEADLINE_S):
        await kit.following.follow(order("slow"))
        await kit.remotes.begun.get()
        await kit.following.follow(order())
        assert (await kit.told()).order == order()
        await kit.following.stop(SOURCE._replace(name="slow"), "u1")
    assert kit.remotes.under_way == 0
    assert kit.remotes.discarded == ["u1"]


async def test_a_tenant_reads_one_at_a_time(kit: Kit) -> None:
    kit.remotes.reads = [never]
    for number in range(3):
        await kit.following.follow(order(f"own-{number}", tenant="acme"))
    await kit.following.follow(order("theirs", tenant="umbra"))
    async with asyncio.timeout(DEADLINE_S):
        await kit.remotes.begun.get()
        await kit.remotes.begun.get()
    assert (kit.remotes.opened, kit.remotes.most) == (4, 2)


@pytest.mark.parametrize(
    "suspended",
    [{"spec": {"suspend": True}}, {"metadata": {"annotations": {"tenantry.dev/suspend": "true"}}}],
    ids=["spec", "annotation"],
)
async def test_a_suspended_source_and_one_that_is_gone_are_followed_no_longer(kit: Kit, suspended: dict[str, Any]) -> None:
    document = {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Source",
        "metadata": {"name": "platform", "namespace": "tenantry-system", "uid": "u1", "resourceVersion": "1"},
        "spec": {"url": "https://h.example/r"},
    }
    kit.cache.absorb(document)
    await kit.following.follow(order())
    await kit.told()
    metadata = {**document["metadata"], "resourceVersion": "2", **suspended.get("metadata", {})}  # type: ignore[dict-item]
    kit.cache.absorb({**document, "metadata": metadata, "spec": {"url": "https://h.example/r", **suspended.get("spec", {})}})
    assert kit.following.look(SOURCE, "u1") is None
    await kit.following.follow(order())
    assert (await kit.told()).revision == TIP
    kit.cache.remove({**document, "metadata": {**metadata, "resourceVersion": "3"}})
    assert kit.following.look(SOURCE, "u1") is None


async def test_a_turn_at_writing_holds_up_the_next_sync_which_comes_soon_after(kit: Kit) -> None:
    kit.remotes.declarations = object()
    await kit.following.follow(order())
    await kit.told()
    async with kit.following.turn(SOURCE, 5) as declarations:
        assert declarations is kit.remotes.declarations
        await kit.following.follow(order(asked="now"))
        await asyncio.sleep(0)
        assert kit.news.empty()
    assert (await kit.told()).order == order(asked="now")


@pytest.mark.parametrize("about", ["it is not followed", "it takes no writes", "its turn never comes"])
async def test_there_is_no_turn_where(kit: Kit, about: str) -> None:
    if about == "it takes no writes":
        await kit.following.follow(order())
        await kit.told()
    elif about == "its turn never comes":
        kit.remotes.declarations, kit.remotes.reads = object(), [never]
        await kit.following.follow(order())
        await kit.remotes.begun.get()
    with pytest.raises(Halt) as refused:
        async with kit.following.turn(SOURCE, 0.05):
            raise AssertionError("nothing can be written")
    assert refused.value.verdict.reason == ("SourceBusy" if "turn" in about else "SourceNotRead")


async def test_one_that_is_stopped_ends_after_the_write_under_way_and_lets_nobody_else_write(kit: Kit) -> None:
    kit.remotes.declarations = object()
    await kit.following.follow(order())
    await kit.told()
    inside, done = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        async with kit.following.turn(SOURCE, 5):
            inside.set()
            await done.wait()

    async with asyncio.timeout(DEADLINE_S):
        first = asyncio.create_task(write())
        await inside.wait()
        second = asyncio.create_task(write())
        stopping = asyncio.create_task(kit.following.stop(SOURCE, "u1"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not stopping.done() and kit.remotes.discarded == []
        done.set()
        await first
        await stopping
    with pytest.raises(Halt, match="is not being read"):
        await second
    assert kit.remotes.discarded == ["u1"]
