"""Copies of repositories that are written to and not followed: made when they are needed, few, discarded when they are idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from tenantry.adapters.sources.repositories import OpenedRepository
from tenantry.kinds.source.spec import Source
from tenantry.model.redeclaring import Committed, Redeclaration
from tenantry.model.resource import Ref
from tenantry.model.syncing import SyncOrder, Writing
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Conflict, Halt, Waiting
from tenantry.runtime.following.clones import IDLE_S, MOST, TENANT_MOST, SourceClones
from tests.support.patience import DEADLINE_S

WITHIN_S = 0.2


class Nothing:
    """ports.Declarations of nobody."""

    async def write(self, change: Redeclaration) -> Committed:
        raise AssertionError

    async def tree(self) -> Tree:
        raise AssertionError


@dataclass
class Kit:
    """Clones, what was opened and discarded, and who was asked to look. overgrown: how large a copy is after a write."""

    opened: list[str] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    asked: list[Ref] = field(default_factory=list)
    path: str = "p"
    overgrown: bool = False
    refusal: Waiting | None = None
    at: float = 0.0

    def __post_init__(self) -> None:
        self.clones = SourceClones(self, self.order_of, self.ask, lambda: self.at, WITHIN_S)

    async def open(self, order: SyncOrder) -> OpenedRepository:
        self.opened.append(order.uid)
        return OpenedRepository(self.never, self.changes, self.applied, Nothing(), self.history)

    async def discard(self, uid: str) -> None:
        self.discarded.append(uid)

    async def is_overgrown(self, order: SyncOrder) -> bool:
        return self.overgrown

    async def never(self) -> Tree:
        raise AssertionError("it is not followed")

    async def changes(self) -> AsyncIterator[None]:
        raise AssertionError("it is not followed")
        yield

    async def applied(self, tree: Tree) -> None:
        raise AssertionError("it is not followed")

    async def history(self, tree: Tree) -> tuple[str, ...]:
        raise AssertionError("it is not followed")

    async def order_of(self, one: Source) -> SyncOrder:
        if self.refusal is not None:
            raise Halt(self.refusal)
        tenant = "" if one.metadata.namespace == "tenantry-system" else one.metadata.namespace
        return SyncOrder(one.ref, one.metadata.uid, one.spec.url, "", self.path, 60.0, tenant, writing=Writing(False, "a.yaml"))

    async def ask(self, ref: Ref) -> None:
        self.asked.append(ref)

    async def write(self, one: Source) -> None:
        async with self.clones.turn(one):
            self.at += 1


def source(name: str = "platform", namespace: str = "tenantry-system") -> Source:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return Source.model_validate({"metadata": metadata, "spec": {"url": "https://h.example/r"}})


@pytest.fixture
def kit() -> Kit:
    return Kit()


async def test_a_copy_is_made_once_and_made_anew_for_other_settings(kit: Kit) -> None:
    await kit.write(source())
    await kit.write(source())
    assert (kit.opened, kit.discarded) == (["uid-platform"], [])
    kit.path = "q"
    await kit.write(source())
    assert kit.opened == ["uid-platform"] * 2


async def test_what_is_written_is_what_the_source_asks_for_when_the_turn_comes(kit: Kit) -> None:
    async with kit.clones.turn(source()):
        waiting = asyncio.create_task(kit.write(source()))
        await asyncio.sleep(0)
        kit.path = "q"
    await waiting
    assert kit.opened == ["uid-platform"] * 2


async def test_the_source_is_looked_at_after_each_turn_also_one_that_failed(kit: Kit) -> None:
    await kit.write(source())
    with pytest.raises(Conflict):
        async with kit.clones.turn(source()):
            raise Conflict("others were first")
    assert kit.asked == [source().ref] * 2


async def test_that_nobody_can_be_asked_undoes_no_write(kit: Kit) -> None:
    async def gone(ref: Ref) -> None:
        raise Conflict("written all the time")

    clones = SourceClones(kit, kit.order_of, gone, lambda: 0.0, WITHIN_S)
    async with clones.turn(source()):
        pass


async def test_a_source_that_is_refused_is_not_written_and_says_why(kit: Kit) -> None:
    kit.refusal = Waiting("SecretMissing", "spec.credentials.secretRef: Secret git does not exist")
    with pytest.raises(Halt, match="Secret git does not exist"):
        await kit.write(source())
    assert kit.opened == []


async def test_a_copy_that_has_grown_too_large_or_is_not_needed_is_discarded(kit: Kit) -> None:
    await kit.write(source("idle"))
    await kit.write(source("used"))
    kit.at += IDLE_S - 1
    await kit.clones.sweep()
    assert kit.discarded == ["uid-idle"]
    kit.overgrown = True
    await kit.write(source("used"))
    assert kit.discarded == ["uid-idle", "uid-used"]
    kit.overgrown = False
    await kit.write(source("used"))
    assert kit.opened == ["uid-idle", "uid-used", "uid-used"]


async def test_a_tenant_with_many_sources_displaces_its_own_copies_alone(kit: Kit) -> None:
    await kit.write(source("platform"))
    await kit.write(source("other", "tenant-umbra"))
    for number in range(2 * MOST):
        await kit.write(source(f"s{number}", "tenant-acme"))
    assert kit.discarded == [f"uid-s{number}" for number in range(2 * MOST - TENANT_MOST)]


async def test_no_more_than_a_few_are_kept_and_the_one_that_was_used_longest_ago_goes_first(kit: Kit) -> None:
    for number in range(MOST):
        await kit.write(source(f"s{number}"))
    await kit.write(source("s0"))
    await kit.write(source("one more"))
    assert kit.discarded == ["uid-s1"]


async def test_one_that_is_being_written_to_is_never_discarded(kit: Kit) -> None:
    async with kit.clones.turn(source("held")):
        kit.at += 2 * IDLE_S
        await kit.clones.sweep()
        for number in range(MOST + 1):
            await kit.write(source(f"s{number}"))
    assert "uid-held" not in kit.discarded


async def test_who_waits_too_long_for_a_turn_is_told_to_try_again(kit: Kit) -> None:
    async with kit.clones.turn(source()):
        with pytest.raises(Halt) as busy:
            await kit.write(source())
    assert busy.value.verdict.reason == "SourceBusy"
    await kit.write(source())


async def test_a_tenant_s_sources_take_turns_and_hold_up_nobody_else_s(kit: Kit) -> None:
    async with kit.clones.turn(source("one", "tenant-acme")):
        await kit.write(source("theirs", "tenant-umbra"))
        await kit.write(source())
        with pytest.raises(Halt) as busy:
            await kit.write(source("two", "tenant-acme"))
    assert busy.value.verdict.reason == "SourceBusy"
    await asyncio.wait_for(kit.write(source("two", "tenant-acme")), DEADLINE_S)


async def test_a_source_that_takes_no_writes_any_more_is_not_written(kit: Kit) -> None:
    async def read_only(order: SyncOrder) -> OpenedRepository:
        return replace(await Kit.open(kit, order), declarations=None)

    kit.open = read_only  # type: ignore[method-assign]
    with pytest.raises(Halt) as refused:
        await kit.write(source())
    assert refused.value.verdict.reason == "SourceNotWritten"
