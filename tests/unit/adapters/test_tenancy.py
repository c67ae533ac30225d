from __future__ import annotations

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.tenancy import EmbeddedTenancy
from tenantry.model.resource import FINALIZER, TENANT_LABEL, Document, Ref, held_of
from tenantry.model.verdicts import Forbidden, Halt, NotFound, Stalled, Waiting
from tests.unit.adapters.store.documents import ADMISSION, environment, namespace, secret


class Kit:
    def __init__(self) -> None:
        self.store = MemoryStore(ADMISSION)
        self.tenancy = EmbeddedTenancy(self.store, self.store.inside)

    async def namespace(self, name: str) -> Document:
        return await self.store.get(Ref("Namespace", "", name))

    async def uid(self, name: str) -> str:
        return str((await self.namespace(name))["metadata"]["uid"])


@pytest.fixture
def kit() -> Kit:
    return Kit()


async def test_a_missing_namespace_is_made_once(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1")
    made = await kit.namespace("t-acme")
    assert made["metadata"]["labels"] == {TENANT_LABEL: "acme"}
    await kit.tenancy.ensure("t-acme", "acme", "u1")
    assert await kit.namespace("t-acme") == made


@pytest.mark.parametrize("name", ["default", "tenantry-system", "kube-system", "kube-x"])
async def test_reserved_namespaces_are_refused_even_with_consent(kit: Kit, name: str) -> None:
    if name != "tenantry-system":
        await kit.store.create(namespace(name, labels={TENANT_LABEL: "acme"}))
    with pytest.raises(Halt) as halt:
        await kit.tenancy.ensure(name, "acme", "u1")
    assert isinstance(halt.value.verdict, Stalled)
    assert halt.value.verdict.reason == "NamespaceTaken"


@pytest.mark.parametrize("labels", [{}, {TENANT_LABEL: "other"}], ids=["unlabelled", "another's"])
async def test_a_foreign_namespace_is_not_taken_without_consent(kit: Kit, labels: dict[str, str]) -> None:
    before = await kit.store.create(namespace("theirs", labels=labels))
    with pytest.raises(Halt, match=f"{TENANT_LABEL}=acme"):
        await kit.tenancy.ensure("theirs", "acme", "u1")
    assert await kit.namespace("theirs") == before


async def test_an_adopted_namespace_is_released_with_what_is_in_it(kit: Kit) -> None:
    before = await kit.store.create(namespace("theirs", labels={TENANT_LABEL: "acme"}))
    await kit.store.create(secret("s", "x", "theirs"))
    await kit.tenancy.ensure("theirs", "acme", "u1")
    await kit.tenancy.remove("theirs", await kit.uid("theirs"))
    assert await kit.namespace("theirs") == before
    assert await kit.store.get(Ref("Secret", "theirs", "s"))


async def test_removal_takes_the_namespace_and_its_leftover_secrets(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1")
    await kit.store.create(secret("s", "x", "t-acme"))
    uid = await kit.uid("t-acme")
    await kit.tenancy.remove("t-acme", uid)
    for ref in (Ref("Namespace", "", "t-acme"), Ref("Secret", "t-acme", "s")):
        with pytest.raises(NotFound):
            await kit.store.get(ref)
    await kit.tenancy.remove("t-acme", uid)


async def test_removal_waits_for_what_a_finalizer_holds_and_lets_nothing_in(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1")
    await kit.store.create(environment("dev", "t-acme", finalizers=[FINALIZER]))
    uid = await kit.uid("t-acme")
    with pytest.raises(Halt, match="Environment/t-acme/dev") as halt:
        await kit.tenancy.remove("t-acme", uid)
    assert isinstance(halt.value.verdict, Waiting)
    with pytest.raises(Forbidden):
        await kit.store.create(secret("late", "x", "t-acme"))
    with pytest.raises(Halt, match="still being deleted"):
        await kit.tenancy.ensure("t-acme", "acme", "u1")
    await kit.store.set_finalizers(held_of(await kit.store.get(Ref("Environment", "t-acme", "dev"))), ())
    await kit.tenancy.remove("t-acme", uid)
    with pytest.raises(NotFound):
        await kit.namespace("t-acme")


async def test_another_incarnation_is_left_alone(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1")
    await kit.tenancy.remove("t-acme", "an older uid")
    assert await kit.namespace("t-acme")


async def test_a_namespace_that_holds_objects_is_not_deleted_by_hand(kit: Kit) -> None:
    created = await kit.store.create(namespace("plain"))
    await kit.store.create(secret("s", "x", "plain"))
    with pytest.raises(Forbidden, match="still holds"):
        await kit.store.delete(held_of(created))
