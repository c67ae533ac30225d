"""The store of callers while others write as well: a sync of another process may apply a commit before its caller does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.redeclaring import Committed, Redeclaration
from tenantry.model.resource import Document, Ref, held_of
from tenantry.model.tree import Declared, Place, Tree
from tenantry.model.verdicts import AlreadyExists, Forbidden, Halt, NotFound, Stalled
from tenantry.ports import Declarations
from tenantry.runtime.cache import Cache
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.write_back import DeclaringStore, WriteBack

OWNER = "tenantry-system.platform"
ACME = Ref("Tenant", "", "acme")
COMMIT, AUTHOR = "4f0c2b9d1e77", "ann <ann@tenantry.invalid>"


async def nobody() -> None:
    return


def tenant(name: str = "Acme", requested_by: str = "ann", **labels: str) -> dict[str, Any]:
    metadata = {"name": "acme", "labels": labels, "annotations": {"tenantry.dev/requested-by": requested_by}}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": metadata, "spec": {"displayName": name}}


def synced(name: str = "Acme") -> dict[str, Any]:
    """As a sync of the commit makes it."""
    return tenant(name, "git:ann", **{"tenantry.dev/source": OWNER})


@dataclass
class Repository:
    """ports.Declarations. meanwhile: what others do before the caller has its commit."""

    meanwhile: Callable[[], Awaitable[None]] = nobody
    declared: tuple[Declared, ...] = ()
    written: list[Redeclaration] = field(default_factory=list)

    async def write(self, change: Redeclaration) -> Committed:
        self.written.append(change)
        await self.meanwhile()
        return Committed(COMMIT, AUTHOR, {change.edit.ref: "acme.yaml:1"})

    async def tree(self) -> Tree:
        return Tree(self.declared)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Declarations]:
        yield self


@dataclass
class Kit:
    """runtime.write_back.Writers of one source; callers' store, and that of everybody else."""

    repository: Repository = field(default_factory=Repository)

    def __post_init__(self) -> None:
        self.others = WritingStore(MemoryStore(Admission()), Cache(TYPES))
        self.callers = DeclaringStore.over(self.others, self)
        self.back = WriteBack(OWNER, self.repository.turn, Admission().admit)

    def of(self, source: str, namespace: str) -> WriteBack | None:
        return self.back if source == OWNER else None

    def home(self, document: Document) -> WriteBack | None:
        return self.back

    async def declares(self, document: dict[str, Any]) -> Document:
        """It is in the repository, and applied."""
        self.repository.declared = (Declared.of(document, Place("acme.yaml", 1)),)
        return await self.others.create(document)

    def sync(self, document: dict[str, Any]) -> None:
        async def meanwhile() -> None:
            await self.others.create(document)

        self.repository.meanwhile = meanwhile


@pytest.fixture
def kit() -> Kit:
    return Kit()


async def test_what_a_sync_has_made_first_is_the_caller_s_all_the_same(kit: Kit) -> None:
    kit.sync(synced())
    made = await kit.callers.create(tenant())
    annotations = made["metadata"]["annotations"]
    assert annotations["tenantry.dev/requested-by"] == "ann"
    assert (annotations["tenantry.dev/source-commit"], annotations["tenantry.dev/source-file"]) == (COMMIT, "acme.yaml:1")
    assert made == await kit.others.get(ACME)


async def test_what_somebody_else_has_made_meanwhile_is_not_overwritten(kit: Kit) -> None:
    kit.sync(tenant("By hand", "eve"))
    with pytest.raises(AlreadyExists):
        await kit.callers.create(tenant())
    assert (await kit.others.get(ACME))["spec"]["displayName"] == "By hand"


async def test_what_is_there_is_not_committed_anew(kit: Kit) -> None:
    await kit.others.create(tenant("By hand"))
    with pytest.raises(AlreadyExists):
        await kit.callers.create(tenant())
    assert kit.repository.written == []


async def test_an_edit_that_a_sync_has_applied_first_is_the_caller_s_all_the_same(kit: Kit) -> None:
    current = await kit.others.create(synced())

    async def applied() -> None:
        held = await kit.others.get(ACME)
        await kit.others.replace({**held, "spec": {**held["spec"], "displayName": "Acme Ltd"}}, held_of(held).version)

    kit.repository.meanwhile = applied
    metadata = {**current["metadata"], "annotations": {"tenantry.dev/requested-by": "ann"}}
    wanted = {**current, "metadata": metadata, "spec": {**current["spec"], "displayName": "Acme Ltd"}}
    stored = await kit.callers.replace(wanted, held_of(current).version)
    assert stored["spec"]["displayName"] == "Acme Ltd"
    assert stored["metadata"]["annotations"]["tenantry.dev/requested-by"] == "ann"


async def test_what_a_sync_has_pruned_first_is_deleted_all_the_same(kit: Kit) -> None:
    current = await kit.declares(synced())

    async def pruned() -> None:
        marked = await kit.others.get(ACME)
        assert marked["metadata"]["annotations"]["tenantry.dev/deletion-confirmed"] == "true"
        await kit.others.delete(held_of(marked))

    kit.repository.meanwhile = pruned
    gone = await kit.callers.delete(held_of(current))
    assert gone["metadata"]["uid"] == current["metadata"]["uid"]
    with pytest.raises(NotFound):
        await kit.others.get(ACME)


async def test_a_deletion_that_the_remote_refuses_leaves_no_mark(kit: Kit) -> None:
    current = await kit.declares(synced())

    async def refused() -> None:
        raise Halt(Stalled("RepositoryRefused", "main is protected"))

    kit.repository.meanwhile = refused
    with pytest.raises(Halt, match="main is protected"):
        await kit.callers.delete(held_of(current))
    assert "tenantry.dev/deletion-confirmed" not in (await kit.others.get(ACME))["metadata"]["annotations"]


async def test_what_the_store_would_refuse_its_caller_is_not_committed(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    current = await kit.declares(synced())
    judge = MemoryStore(Admission())

    async def refused(*_: object) -> Document:
        raise Forbidden("by a policy of this cluster")

    for verb in ("create", "replace", "delete"):
        monkeypatch.setattr(judge, verb, refused)
    monkeypatch.setattr(kit.others._store, "dry_run", lambda: judge)
    other = {**tenant(), "metadata": {**tenant()["metadata"], "name": "beta"}}
    edited = {**current, "spec": {**current["spec"], "displayName": "X"}}
    version = held_of(current).version
    for write in (kit.callers.create(other), kit.callers.replace(edited, version), kit.callers.delete(held_of(current))):
        with pytest.raises(Forbidden, match="policy of this cluster"):
            await write
    assert kit.repository.written == []
    assert await kit.others.get(ACME) == current


async def test_what_its_source_does_not_declare_is_deleted_without_a_commit(kit: Kit) -> None:
    current = await kit.others.create(synced())
    await kit.callers.delete(held_of(current))
    assert kit.repository.written == []
    with pytest.raises(NotFound):
        await kit.others.get(ACME)


async def test_what_another_source_declares_is_not_written_through_this_one(kit: Kit) -> None:
    current = await kit.others.create(tenant(**{"tenantry.dev/source": "elsewhere"}))
    await kit.callers.replace({**current, "spec": {**current["spec"], "displayName": "X"}}, held_of(current).version)
    await kit.callers.delete(held_of(await kit.others.get(ACME)))
    assert kit.repository.written == []
