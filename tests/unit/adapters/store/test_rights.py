from __future__ import annotations

import pytest

from tenantry.adapters.store.embedded import EmbeddedStore
from tenantry.adapters.store.memory import MemoryStore
from tenantry.model.facts import Caller
from tenantry.model.resource import API_VERSION, SYSTEM_NAMESPACE, Document, Ref, held_of
from tenantry.model.verdicts import Forbidden
from tests.unit.adapters.store.documents import ADMISSION, environment, namespace

SUPERUSER = Caller("1", "root", "SUPERUSER")
ADMIN = Caller("2", "ann", "ADMIN", "acme")
VIEWER = Caller("3", "vic", "VIEWER", "acme")
STRANGER = Caller("4", "sam", "ADMIN", "absent")
FORGED = Caller("5", "eve", "SUPERUSER", "acme")
NOBODY = Caller("6", "nob", "", "")


@pytest.fixture
async def store() -> EmbeddedStore:
    """Tenant acme owns namespace t-acme; t-other carries acme's label, but no binding."""
    store = MemoryStore(ADMISSION)
    await store.create(namespace("t-acme"))
    await store.create(namespace("t-other", labels={"tenantry.dev/tenant": "acme"}))
    tenant: Document = {"apiVersion": API_VERSION, "kind": "Tenant", "metadata": {"name": "acme"}, "spec": {}}
    created = await store.create(tenant)
    await store.set_status(held_of(created), {"observedGeneration": 1, "namespace": {"name": "t-acme", "uid": "1"}})
    return store


@pytest.mark.parametrize("caller", [SUPERUSER, ADMIN], ids=lambda caller: caller.username)
async def test_a_tenants_admin_and_a_superuser_write_into_its_namespace(store: EmbeddedStore, caller: Caller) -> None:
    acting = store.as_(caller)
    created = await acting.create(environment("dev", "t-acme"))
    await acting.replace({**created, "spec": {**created["spec"], "suspend": True}}, created["metadata"]["resourceVersion"])
    await acting.delete(held_of(await acting.get(Ref("Environment", "t-acme", "dev"))))


@pytest.mark.parametrize(
    ("caller", "where"),
    [
        pytest.param(VIEWER, "t-acme", id="a viewer, at home"),
        pytest.param(ADMIN, "t-other", id="an admin, where only the label is its tenant's"),
        pytest.param(ADMIN, SYSTEM_NAMESPACE, id="an admin, in the platform's namespace"),
        pytest.param(ADMIN, "absent", id="an admin, in a namespace that does not exist"),
        pytest.param(STRANGER, "t-acme", id="an admin of a tenant that does not exist"),
        pytest.param(FORGED, "t-other", id="a superuser of a tenant is none"),
        pytest.param(NOBODY, "t-acme", id="a caller without a role"),
    ],
)
async def test_others_write_nothing(store: EmbeddedStore, caller: Caller, where: str) -> None:
    with pytest.raises(Forbidden):
        await store.as_(caller).create(environment("dev", where))


async def test_a_tenants_admin_writes_no_cluster_scoped_object_by_naming_its_namespace(store: EmbeddedStore) -> None:
    metadata = {"name": "mine", "namespace": "t-acme"}
    with pytest.raises(Forbidden):
        await store.as_(ADMIN).create({"apiVersion": API_VERSION, "kind": "Region", "metadata": metadata, "spec": {}})


async def test_a_tenants_admin_writes_no_status_and_no_finalizers(store: EmbeddedStore) -> None:
    created = await store.create(environment("dev", "t-acme"))
    with pytest.raises(Forbidden):
        await store.as_(ADMIN).set_status(held_of(created), {"observedGeneration": 1})
    with pytest.raises(Forbidden):
        await store.as_(ADMIN).set_finalizers(held_of(created), ())


@pytest.mark.parametrize("caller", [ADMIN, VIEWER], ids=lambda caller: caller.username)
async def test_a_tenants_people_read_their_own_namespace_alone(store: EmbeddedStore, caller: Caller) -> None:
    await store.create(environment("dev", "t-acme"))
    await store.create(environment("dev", "t-other"))
    assert await store.as_(caller).get(Ref("Environment", "t-acme", "dev"))
    with pytest.raises(Forbidden):
        await store.as_(caller).get(Ref("Environment", "t-other", "dev"))


async def test_rights_are_the_last_callers(store: EmbeddedStore) -> None:
    with pytest.raises(Forbidden):
        await store.as_(SUPERUSER).as_(VIEWER).create(environment("dev", "t-acme"))
