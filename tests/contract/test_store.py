"""The contract of every Store and Feed, a real API server included: nothing here asks for more than Kubernetes promises."""

from __future__ import annotations

import asyncio
import base64
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tenantry.hosts.standalone import listed
from tenantry.kinds import crds
from tenantry.model.resource import API_VERSION, FINALIZER, Document, Held, Ref, held_of, parse_time, ref_of
from tenantry.model.verdicts import AlreadyExists, Conflict, Expired, Forbidden, Halt, Invalid, NotFound
from tenantry.ports import Event
from tests.contract.stores import MARKS, STORES, Row, StoreAndFeed
from tests.support.patience import DEADLINE_S

SPEC = {"region": "home", "slug": "dev"}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in STORES])
def row(request: pytest.FixtureRequest) -> Row:
    """Synchronous, for a cluster is started outside of a test's own loop."""
    return STORES[request.param](request)


@pytest.fixture
async def store(row: Row, tmp_path: Path) -> AsyncIterator[StoreAndFeed]:
    async with row(tmp_path / "state") as store:
        yield store


@pytest.fixture
async def namespace(store: StoreAndFeed) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    await store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def environment(namespace: str, name: str = "dev", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Environment",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": dict(SPEC),
    }


def edited(document: Document, **spec: Any) -> Document:
    return {**document, "spec": {**document["spec"], **spec}}


def labelled(document: Document, **labels: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


def version(document: Document) -> str:
    return str(document["metadata"]["resourceVersion"])


def generation(document: Document) -> int:
    return int(document["metadata"]["generation"])


async def replaced(store: StoreAndFeed, document: Document) -> Document:
    return await store.replace(document, version(document))


async def events_of(feed: AsyncIterator[Event], namespace: str, count: int) -> list[Event]:
    """The next events of one namespace: a cluster has others."""
    events: list[Event] = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in feed:
            if event.document["metadata"]["namespace"] == namespace:
                events.append(event)
            if len(events) == count:
                return events
    raise AssertionError("a watch has no end")


def told(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.document["metadata"]["name"]) for event in events]


# Creating


async def test_a_created_object_has_an_identity_and_generation_one(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, labels={"a": "b"}))
    metadata = created["metadata"]
    assert metadata["uid"] and metadata["resourceVersion"]
    assert metadata["generation"] == 1
    assert metadata["labels"] == {"a": "b"}
    assert parse_time(metadata["creationTimestamp"]).tzinfo is not None
    assert "deletionTimestamp" not in metadata


async def test_what_a_write_returns_is_what_is_stored(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    assert await store.get(ref_of(created)) == created


async def test_identity_is_the_stores_to_give(store: StoreAndFeed, namespace: str) -> None:
    given: dict[str, Any] = {"uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z"}
    metadata = (await store.create(environment(namespace, **given)))["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] > "2001-01-01T00:00:00Z"


async def test_a_status_given_at_create_is_dropped(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create({**environment(namespace), "status": {"phase": "READY"}})
    assert "phase" not in created.get("status", {})


async def test_finalizers_given_at_create_are_kept(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, finalizers=[FINALIZER]))
    assert created["metadata"]["finalizers"] == [FINALIZER]


async def test_a_name_is_given_once_in_a_namespace(store: StoreAndFeed, namespace: str) -> None:
    await store.create(environment(namespace))
    with pytest.raises(AlreadyExists):
        await store.create(environment(namespace))


async def test_of_two_creates_at_once_one_succeeds(store: StoreAndFeed, namespace: str) -> None:
    answers = await asyncio.gather(*(store.create(environment(namespace)) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(answer, Mapping) for answer in answers) == 1
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 7


async def test_a_new_object_of_an_old_name_is_another(store: StoreAndFeed, namespace: str) -> None:
    first = await store.create(environment(namespace))
    await store.delete(held_of(first))
    second = await store.create(environment(namespace))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_namespace_must_exist(store: StoreAndFeed) -> None:
    with pytest.raises(NotFound, match="t-absent"):
        await store.create(environment("t-absent"))


async def test_what_is_absent_is_not_found(store: StoreAndFeed, namespace: str) -> None:
    absent = Held(Ref("Environment", namespace, "none"), "", "")
    with pytest.raises(NotFound):
        await store.get(absent.ref)
    with pytest.raises(NotFound):
        await store.replace(environment(namespace, "none"), "1")
    with pytest.raises(NotFound):
        await store.set_status(absent, {})
    with pytest.raises(NotFound):
        await store.set_finalizers(absent, ())
    with pytest.raises(NotFound):
        await store.delete(absent)


# Replacing


async def test_generation_counts_changes_of_spec(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    changed = await replaced(store, edited(created, slug="next"))
    assert (generation(changed), changed["spec"]["slug"]) == (2, "next")
    assert version(changed) != version(created)


async def test_labels_and_annotations_are_replaced_without_a_generation(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, labels={"a": "b", "c": "d"}))
    changed = await replaced(store, labelled(created, a="x"))
    assert changed["metadata"]["labels"] == {"a": "x"}
    assert generation(changed) == 1
    assert version(changed) != version(created)


async def test_a_replace_that_changes_nothing_makes_no_version(store: StoreAndFeed, namespace: str) -> None:
    # An API server stores the status' default at the first write after the create: that one is a change to it.
    seen = await replaced(store, labelled(await store.create(environment(namespace)), a="b"))
    assert await replaced(store, seen) == seen


async def test_a_replace_leaves_status_and_finalizers_alone(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, finalizers=[FINALIZER]))
    seen = await store.set_status(held_of(created), {"observedGeneration": 1, "phase": "READY"})
    bare = {**environment(namespace), "status": {"phase": "DELETING"}}
    changed = await store.replace(edited(bare, slug="next"), version(seen))
    assert changed["status"] == seen["status"]
    assert changed["metadata"]["finalizers"] == [FINALIZER]
    assert changed["metadata"]["uid"] == created["metadata"]["uid"]


async def test_a_replace_of_another_version_conflicts(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    await replaced(store, edited(created, slug="next"))
    with pytest.raises(Conflict):
        await replaced(store, edited(created, slug="late"))


async def test_a_replace_of_another_incarnation_conflicts(store: StoreAndFeed, namespace: str) -> None:
    first = await store.create(environment(namespace))
    await store.delete(held_of(first))
    second = await store.create(environment(namespace))
    with pytest.raises(Conflict):
        await store.replace(edited(first, slug="late"), version(second))


async def test_a_replace_names_a_version(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    with pytest.raises(Invalid, match="resourceVersion"):
        await store.replace(created, "")


# Status and finalizers


async def test_a_status_is_written_apart(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    seen = await store.set_status(held_of(created), {"observedGeneration": 1, "phase": "READY"})
    assert seen["status"]["phase"] == "READY"
    assert seen["spec"] == created["spec"]
    assert generation(seen) == 1
    assert version(seen) != version(created)


async def test_a_status_is_replaced_as_a_whole(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    seen = await store.set_status(held_of(created), {"observedGeneration": 1, "phase": "READY"})
    again = await store.set_status(held_of(seen), {"observedGeneration": 1, "slug": "dev"})
    assert again["status"].get("phase") is None
    assert again["status"]["slug"] == "dev"


async def test_the_same_status_again_makes_no_version(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    seen = await store.set_status(held_of(created), {"observedGeneration": 1, "phase": "READY"})
    assert await store.set_status(held_of(seen), dict(seen["status"])) == seen


async def test_a_status_of_an_older_generation_conflicts(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    await replaced(store, edited(created, slug="next"))
    with pytest.raises(Conflict):
        await store.set_status(held_of(created), {"observedGeneration": 1})


async def test_a_status_of_this_generation_survives_a_label(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    await replaced(store, labelled(created, a="b"))
    seen = await store.set_status(held_of(created), {"observedGeneration": 1, "phase": "READY"})
    assert seen["metadata"]["labels"] == {"a": "b"}
    assert seen["status"]["phase"] == "READY"


async def test_a_status_of_another_incarnation_conflicts(store: StoreAndFeed, namespace: str) -> None:
    first = await store.create(environment(namespace))
    await store.delete(held_of(first))
    await store.create(environment(namespace))
    with pytest.raises(Conflict):
        await store.set_status(held_of(first), {"observedGeneration": 1})


async def test_a_kind_without_the_subresource_is_born_with_its_status(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(operation(namespace))
    assert created["status"]["status"] == "RUNNING"
    changed = await replaced(store, {**created, "status": {"status": "COMPLETED", "result": "SUCCESS"}})
    assert changed["status"]["result"] == "SUCCESS"
    with pytest.raises(NotFound):
        await store.set_status(held_of(changed), {"status": "QUEUED"})


def operation(namespace: str) -> dict[str, Any]:
    target = {"kind": "Tenant", "name": "acme", "uid": "1"}
    return {
        "apiVersion": API_VERSION,
        "kind": "Operation",
        "metadata": {"name": f"op-{uuid.uuid4().hex[:8]}", "namespace": namespace},
        "spec": {"action": "CREATE_TENANT", "target": target, "cause": "1"},
        "status": {"status": "RUNNING", "result": "PENDING"},
    }


async def test_finalizers_are_written_apart(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    held = await store.set_finalizers(held_of(created), (FINALIZER,))
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert generation(held) == 1
    with pytest.raises(Conflict):
        await store.set_finalizers(held_of(created), ())


# Deleting


async def test_an_object_without_finalizers_goes_at_once(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    last = await store.delete(held_of(created))
    assert last["metadata"]["uid"] == created["metadata"]["uid"]
    with pytest.raises(NotFound):
        await store.get(ref_of(created))


async def test_a_finalizer_holds_a_deleted_object_until_it_is_released(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, finalizers=[FINALIZER]))
    marked = await store.delete(held_of(created))
    assert marked["metadata"]["deletionTimestamp"]
    assert generation(marked) == 2
    assert await store.get(ref_of(created)) == marked
    await store.set_finalizers(held_of(marked), ())
    with pytest.raises(NotFound):
        await store.get(ref_of(created))


async def test_deleting_again_changes_nothing(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, finalizers=[FINALIZER]))
    marked = await store.delete(held_of(created))
    assert await store.delete(held_of(marked)) == marked


async def test_a_deleting_object_takes_status_and_spec_but_no_new_finalizer(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace, finalizers=[FINALIZER]))
    marked = await store.delete(held_of(created))
    seen = await store.set_status(held_of(marked), {"observedGeneration": 2, "phase": "DELETING"})
    changed = await replaced(store, edited(seen, slug="late"))
    assert generation(changed) == 3
    with pytest.raises(Invalid):
        await store.set_finalizers(held_of(changed), (FINALIZER, "example.com/more"))


async def test_a_delete_is_held_against_uid_and_version(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(environment(namespace))
    changed = await replaced(store, labelled(created, a="b"))
    with pytest.raises(Conflict):
        await store.delete(held_of(created))
    with pytest.raises(Conflict):
        await store.delete(held_of(changed)._replace(uid=str(uuid.uuid4()), version=""))
    await store.delete(held_of(created)._replace(version=""))


async def test_a_protected_object_cannot_be_deleted(store: StoreAndFeed, namespace: str) -> None:
    created = await store.create(edited(environment(namespace), deletionProtection=True))
    with pytest.raises(Forbidden, match="deletionProtection"):
        await store.delete(held_of(created))
    free = await replaced(store, edited(created, deletionProtection=False))
    await store.delete(held_of(free))


@pytest.mark.parametrize("kind", [kind for kind in crds.KINDS if kind.KEPT_BY], ids=lambda kind: kind.KIND)
async def test_an_object_that_others_depend_on_cannot_be_deleted(store: StoreAndFeed, kind: crds.Kind) -> None:
    name = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": API_VERSION, "kind": kind.KIND, "metadata": {"name": name}, "spec": {}}
    current = await store.create(body)
    for counted, told in kind.KEPT_BY.items():
        for number, way_on in enumerate(told, start=1):
            current = await store.set_status(held_of(current), {"observedGeneration": 1, counted: number})
            with pytest.raises(Forbidden, match=f"{kind.KIND}/{name} cannot be deleted: {number} {re.escape(way_on)}"):
                await store.delete(held_of(current))
        current = await store.set_status(held_of(current), {"observedGeneration": 1, counted: 0})
    await store.delete(held_of(current))


async def test_nothing_is_created_in_a_deleting_namespace(store: StoreAndFeed) -> None:
    name = f"t-{uuid.uuid4().hex[:10]}"
    metadata = {"name": name, "finalizers": [FINALIZER]}
    created = await store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    await store.delete(held_of(created))
    with pytest.raises(Forbidden):
        await store.create(environment(name))
    await store.set_finalizers(held_of(await store.get(ref_of(created))), ())


@pytest.mark.parametrize("name", [name for name in STORES if name not in MARKS])
async def test_a_namespace_that_is_not_empty_is_kept_and_says_what_it_holds(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with STORES[name](request)(tmp_path / "state") as store:
        made = await store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        for each in ("a", "b", "c", "d"):
            await store.create(environment("ns", each))
        with pytest.raises(Forbidden) as refused:
            await store.delete(held_of(made))
    held = "Environment/ns/a, Environment/ns/b, Environment/ns/c and 1 more"
    assert refused.value.verdict.message == f"namespace ns still holds {held}: delete what it holds first"


# Secrets


async def test_clear_text_of_a_secret_is_stored_as_base64(store: StoreAndFeed, namespace: str) -> None:
    metadata = {"name": "s", "namespace": namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "hunter2"}}
    created = await store.create(secret)
    assert base64.b64decode(created["data"]["password"]) == b"hunter2"
    assert "stringData" not in created
    assert await store.get(ref_of(created)) == created


async def test_a_value_that_is_not_base64_is_refused(store: StoreAndFeed, namespace: str) -> None:
    metadata = {"name": "s", "namespace": namespace}
    # An API server tells the byte and not the key.
    with pytest.raises(Halt, match=r"password|base64"):
        await store.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": "not base64!"}})


# Lists and watches


async def test_a_list_has_all_objects_of_a_kind(store: StoreAndFeed, namespace: str) -> None:
    made = [await store.create(environment(namespace, name)) for name in ("b", "a")]
    found, _ = await listed(store, "Environment")
    mine = [document for document in found if document["metadata"]["namespace"] == namespace]
    assert mine == sorted(made, key=lambda document: str(document["metadata"]["name"]))


@pytest.mark.parametrize("kind", ["Environment", "IdentityProvider"])
async def test_a_list_has_a_page_of_one_version_also_of_nothing(store: StoreAndFeed, namespace: str, kind: str) -> None:
    made = [await store.create(environment(namespace, f"env-{number}")) for number in range(3)]
    pages = [page async for page in store.pages(kind)]
    assert [one for documents, _ in pages for one in documents if one in made] == (made if kind == "Environment" else [])
    (at,) = {at for _, at in pages}
    assert int(at) >= int(version(made[-1]))


async def test_a_watch_tells_every_change_after_the_list_in_order(store: StoreAndFeed, namespace: str) -> None:
    before = await store.create(environment(namespace, "before"))
    _, start = await listed(store, "Environment")
    created = await store.create(environment(namespace, finalizers=[FINALIZER]))
    changed = await replaced(store, edited(created, slug="next"))
    marked = await store.delete(held_of(changed))
    await store.set_finalizers(held_of(marked), ())
    await store.delete(held_of(before))
    events = await events_of(store.watch("Environment", start), namespace, 5)
    assert told(events) == [
        ("ADDED", "dev"),
        ("MODIFIED", "dev"),
        ("MODIFIED", "dev"),
        ("DELETED", "dev"),
        ("DELETED", "before"),
    ]
    assert [event.document for event in events[:3]] == [created, changed, marked]


async def test_a_watch_goes_on_from_the_version_of_its_last_event(store: StoreAndFeed, namespace: str) -> None:
    _, start = await listed(store, "Environment")
    for name in ("a", "b", "c"):
        await store.create(environment(namespace, name))
    first = await events_of(store.watch("Environment", start), namespace, 2)
    rest = await events_of(store.watch("Environment", version(first[-1].document)), namespace, 1)
    assert told(rest) == [("ADDED", "c")]


async def test_a_waiting_watch_is_woken_by_a_write(store: StoreAndFeed, namespace: str) -> None:
    _, start = await listed(store, "Environment")
    watching = asyncio.create_task(events_of(store.watch("Environment", start), namespace, 1))
    await store.create(environment(namespace))
    assert told(await watching) == [("ADDED", "dev")]


async def test_a_watch_tells_of_its_kind_alone(store: StoreAndFeed, namespace: str) -> None:
    _, start = await listed(store, "Environment")
    await store.create(operation(namespace))
    await store.create(environment(namespace))
    events = await events_of(store.watch("Environment", start), namespace, 1)
    assert told(events) == [("ADDED", "dev")]


async def test_a_write_that_changes_nothing_makes_no_event(store: StoreAndFeed, namespace: str) -> None:
    seen = await replaced(store, labelled(await store.create(environment(namespace)), a="b"))
    _, start = await listed(store, "Environment")
    await replaced(store, seen)
    await store.create(environment(namespace, "after"))
    events = await events_of(store.watch("Environment", start), namespace, 1)
    assert told(events) == [("ADDED", "after")]


async def test_a_version_that_is_none_has_expired(store: StoreAndFeed) -> None:
    with pytest.raises(Expired):
        await anext(aiter(store.watch("Environment", "garbage")))


# At once


async def test_compare_and_swap_loses_no_increment(store: StoreAndFeed, namespace: str) -> None:
    """Eight clients count on three keys; a read and a successful replace are one step, so each count ends exact."""
    refs = [ref_of(await store.create(environment(namespace, f"n{i}", annotations={"n": "0"}))) for i in range(3)]

    async def increment(ref: Ref) -> None:
        while True:
            document = await store.get(ref)
            metadata = document["metadata"]
            count = {"n": str(int(metadata["annotations"]["n"]) + 1)}
            try:
                await store.replace({**document, "metadata": {**metadata, "annotations": count}}, version(document))
            except Conflict:
                continue
            return

    async def client() -> None:
        for turn in range(15):
            await increment(refs[turn % 3])

    await asyncio.gather(*(client() for _ in range(8)))
    counts = [(await store.get(ref))["metadata"]["annotations"]["n"] for ref in refs]
    assert counts == ["40", "40", "40"]
