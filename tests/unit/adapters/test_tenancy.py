from __future__ import annotations

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.tenancy import USED_BY, EmbeddedTenancy
from tenantry.model.facts import TenantAccess
from tenantry.model.resource import ACCESS_MARK, DELETION_CONFIRMED, FINALIZER, MADE_FOR, TENANT_LABEL, Document, Ref, held_of
from tenantry.model.verdicts import Forbidden, Halt, NotFound, Stalled, Waiting
from tests.unit.adapters.store.documents import ADMISSION, environment, namespace, secret

ACCESS = TenantAccess(admins=("people",))


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


async def test_the_namespace_tells_the_access_that_it_gives(kit: Kit) -> None:
    for access in (ACCESS, TenantAccess(admins=("acme-admins",))):
        await kit.tenancy.ensure("t-acme", "acme", "u1", access)
        assert (await kit.namespace("t-acme"))["metadata"]["annotations"][ACCESS_MARK] == access.mark


async def test_a_missing_namespace_is_made_once(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    made = await kit.namespace("t-acme")
    assert made["metadata"]["labels"] == {TENANT_LABEL: "acme"}
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    assert await kit.namespace("t-acme") == made


@pytest.mark.parametrize("name", ["default", "tenantry-system", "kube-system", "kube-x"])
async def test_reserved_namespaces_are_refused_even_with_consent(kit: Kit, name: str) -> None:
    if name != "tenantry-system":
        await kit.store.create(namespace(name, labels={TENANT_LABEL: "acme"}))
    with pytest.raises(Halt) as halt:
        await kit.tenancy.ensure(name, "acme", "u1", ACCESS)
    assert isinstance(halt.value.verdict, Stalled)
    assert halt.value.verdict.reason == "NamespaceTaken"


@pytest.mark.parametrize("labels", [{}, {TENANT_LABEL: "other"}], ids=["unlabelled", "another's"])
async def test_a_foreign_namespace_is_not_taken_without_consent(kit: Kit, labels: dict[str, str]) -> None:
    before = await kit.store.create(namespace("theirs", labels=labels))
    with pytest.raises(Halt, match=f"{TENANT_LABEL}=acme"):
        await kit.tenancy.ensure("theirs", "acme", "u1", ACCESS)
    assert await kit.namespace("theirs") == before


async def test_an_adopted_namespace_is_released_with_what_is_in_it(kit: Kit) -> None:
    before = await kit.store.create(namespace("theirs", labels={TENANT_LABEL: "acme"}))
    await kit.store.create(secret("s", "x", "theirs"))
    await kit.tenancy.ensure("theirs", "acme", "u1", ACCESS)
    await kit.tenancy.remove("theirs", await kit.uid("theirs"))
    after = await kit.namespace("theirs")
    assert after["metadata"]["annotations"] == {**before["metadata"].get("annotations", {}), USED_BY: "u1"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await kit.store.get(Ref("Secret", "theirs", "s"))


async def test_removal_takes_the_namespace_and_its_leftover_secrets(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    await kit.store.create(secret("s", "x", "t-acme"))
    uid = await kit.uid("t-acme")
    await kit.tenancy.remove("t-acme", uid)
    for ref in (Ref("Namespace", "", "t-acme"), Ref("Secret", "t-acme", "s")):
        with pytest.raises(NotFound):
            await kit.store.get(ref)
    await kit.tenancy.remove("t-acme", uid)


async def test_removal_waits_for_what_a_finalizer_holds_and_lets_nothing_in(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    await kit.store.create(environment("dev", "t-acme", finalizers=[FINALIZER]))
    uid = await kit.uid("t-acme")
    with pytest.raises(Halt, match="Environment/t-acme/dev") as halt:
        await kit.tenancy.remove("t-acme", uid)
    assert isinstance(halt.value.verdict, Waiting)
    with pytest.raises(Forbidden):
        await kit.store.create(secret("late", "x", "t-acme"))
    with pytest.raises(Halt, match="still being deleted"):
        await kit.tenancy.ensure("t-acme", "acme", "u2", ACCESS)
    await kit.store.set_finalizers(held_of(await kit.store.get(Ref("Environment", "t-acme", "dev"))), ())
    await kit.tenancy.remove("t-acme", uid)
    with pytest.raises(NotFound):
        await kit.namespace("t-acme")


async def test_the_namespace_of_a_tenant_is_not_deleted_by_hand(kit: Kit) -> None:
    await kit.store.create(namespace("theirs", labels={TENANT_LABEL: "acme"}))
    for name in ("t-acme", "theirs"):
        await kit.tenancy.ensure(name, "acme", "u1", ACCESS)
        with pytest.raises(Forbidden, match=f"Namespace/{name} is the namespace of tenant acme: delete the Tenant instead"):
            await kit.store.delete(held_of(await kit.namespace(name)))


async def test_a_namespace_that_its_tenant_has_let_go_can_be_deleted(kit: Kit) -> None:
    await kit.store.create(namespace("theirs", labels={TENANT_LABEL: "acme"}))
    await kit.tenancy.ensure("theirs", "acme", "u1", ACCESS)
    await kit.tenancy.remove("theirs", await kit.uid("theirs"))
    await kit.store.delete(held_of(await kit.namespace("theirs")))
    with pytest.raises(NotFound):
        await kit.namespace("theirs")


async def test_a_namespace_deleted_by_consent_is_emptied_and_made_anew(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    await kit.store.create(environment("dev", "t-acme", finalizers=[FINALIZER]))
    await kit.store.create(secret("s", "x", "t-acme"))
    before = await kit.namespace("t-acme")
    annotations = before["metadata"]["annotations"] | {DELETION_CONFIRMED: "true"}
    confirmed = {**before, "metadata": {**before["metadata"], "annotations": annotations}}
    await kit.store.delete(held_of(await kit.store.replace(confirmed, before["metadata"]["resourceVersion"])))

    with pytest.raises(Halt, match="Environment/t-acme/dev"):
        await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    await kit.store.set_finalizers(held_of(await kit.store.get(Ref("Environment", "t-acme", "dev"))), ())
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)

    assert (await kit.namespace("t-acme"))["metadata"]["uid"] != before["metadata"]["uid"]
    with pytest.raises(NotFound):
        await kit.store.get(Ref("Secret", "t-acme", "s"))


async def test_another_incarnation_is_left_alone(kit: Kit) -> None:
    await kit.tenancy.ensure("t-acme", "acme", "u1", ACCESS)
    await kit.tenancy.remove("t-acme", "an older uid")
    assert await kit.namespace("t-acme")


async def test_a_namespace_that_holds_objects_is_not_deleted_by_hand(kit: Kit) -> None:
    created = await kit.store.create(namespace("plain"))
    await kit.store.create(secret("s", "x", "plain"))
    with pytest.raises(Forbidden, match="still holds"):
        await kit.store.delete(held_of(created))


@pytest.mark.parametrize("mark", [USED_BY, MADE_FOR])
async def test_what_an_earlier_tenant_left_is_not_the_next_ones(kit: Kit, mark: str) -> None:
    await kit.store.create(namespace("theirs", labels={TENANT_LABEL: "acme"}, annotations={mark: "an-earlier-acme"}))
    left = await kit.store.create(secret("s", "x", "theirs"))
    with pytest.raises(Halt, match="Secret/theirs/s") as halt:
        await kit.tenancy.ensure("theirs", "acme", "u1", ACCESS)
    assert isinstance(halt.value.verdict, Waiting)
    assert (halt.value.verdict.reason, halt.value.verdict.until is not None) == ("NamespaceNotEmpty", True)
    await kit.store.delete(held_of(left))
    await kit.tenancy.ensure("theirs", "acme", "u1", ACCESS)
    assert (await kit.namespace("theirs"))["metadata"]["annotations"][USED_BY] == "u1"


async def test_a_person_may_give_what_was_left_to_the_next(kit: Kit) -> None:
    marks = {MADE_FOR: "an-earlier-acme", USED_BY: "u1"}
    await kit.store.create(namespace("theirs", labels={TENANT_LABEL: "acme"}, annotations=marks))
    await kit.store.create(secret("s", "x", "theirs"))
    await kit.tenancy.ensure("theirs", "acme", "u1", ACCESS)
    assert await kit.store.get(Ref("Secret", "theirs", "s"))
