"""The facts that are shown of a kept volume."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenantry.adapters.kubernetes.engines.kept_volumes import KEPT as KEPT_LABEL
from tenantry.adapters.kubernetes.engines.kept_volumes import KeptVolume, KeptVolumes, bytes_of, document_of, kept_of
from tenantry.adapters.local.archives import joined
from tenantry.model.facts import Backup, EngineRef, volume_of
from tenantry.model.verdicts import Halt, Stalled
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi

TAKEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
UNTIL = datetime(2026, 12, 21, 10, tzinfo=UTC)


def declared(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "tenant-acme"}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


BACKUP = Backup(EngineRef("tenant-acme", "dev", "an-id"), TAKEN, (declared("Environment", "dev", region="eu"),))
KEPT = KeptVolume("kept-1", BACKUP, "pv-1", "a-uid", "eu", 1 << 30, UNTIL)


def test_all_that_is_told_is_read_again() -> None:
    assert kept_of(document_of(KEPT)) == KEPT


def test_its_mark_names_what_tells_of_it() -> None:
    assert KEPT.mark == "an-id@2026-11-21T10:00:00Z@kept-1"
    assert volume_of(KEPT.mark) == "kept-1"


def test_it_is_listed_like_an_archive() -> None:
    facts = KEPT.facts()
    assert (facts.id, facts.namespace, facts.name, facts.size) == ("an-id", "tenant-acme", "dev", 1 << 30)
    assert (facts.kept_until, facts.path) == ("2026-12-21T10:00:00Z", "persistentvolume/pv-1")


def test_5000_identities_are_remembered_and_more_than_a_secret_takes_is_refused() -> None:
    names = random.Random(1)
    many = tuple(declared("Identity", f"i{each}", id=names.randbytes(16).hex()) for each in range(5000))
    assert kept_of(document_of(replace(KEPT, backup=replace(BACKUP, documents=many)))).backup.documents == many
    large = tuple(declared("Identity", f"i{each}", displayName=names.randbytes(500).hex()) for each in range(2500))
    with pytest.raises(Halt) as refused:
        document_of(replace(KEPT, backup=replace(BACKUP, documents=large)))
    assert (refused.value.verdict.reason, "tenant-acme/dev" in refused.value.verdict.message) == ("TooMuchDeclared", True)


@pytest.mark.parametrize(
    "data",
    [{}, {"about.json": "e30="}, {"about.json": "!"}, {"about.json": "e30=", "resources.json.gz": "YQ=="}],
    ids=["nothing", "no declarations", "no base64", "not compressed"],
)
def test_what_does_not_tell_of_one_is_named(data: dict[str, str]) -> None:
    with pytest.raises(Halt) as refused:
        kept_of({**document_of(KEPT), "data": data})
    assert "Secret kept-1 does not describe a kept volume" in refused.value.verdict.message


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("1Gi", 1 << 30),
        ("512Mi", 512 << 20),
        ("5368709120", 5 << 30),
        ("2G", 2 * 10**9),
        ("1.5Ti", 3 << 39),
        ("100k", 10**5),
        ("1Ei", 1 << 60),
        ("2E", 2 * 10**18),
    ],
)
def test_a_quantity_in_bytes(quantity: str, size: int) -> None:
    assert bytes_of(quantity) == size


def test_what_is_remembered_has_what_went_meanwhile_and_of_the_rest_what_is_now() -> None:
    earlier = (declared("Environment", "dev", region="old"), declared("App", "dev.crm"))
    assert joined((declared("Environment", "dev", region="new"),), earlier) == (
        declared("Environment", "dev", region="new"),
        declared("App", "dev.crm"),
    )


PLACE = "/api/v1/persistentvolumes/pv-1"
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "engine", "namespace": "env-1", "uid": "c-1", "labels": {}},
    "spec": {"volumeName": "pv-1"},
}
KEEPING = EngineRef("tenant-acme", "dev", "an-id")


def volume(**claim: Any) -> dict[str, Any]:
    spec = {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": "c-1", **claim}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": spec}


def keeping(api: FakeApi) -> KeptVolumes:
    return KeptVolumes(api.client, lambda ref: (declared("Environment", "dev", region="eu"),), timedelta(days=30))


GONE: dict[str, tuple[dict[str, Any] | None, str]] = {
    "it was deleted": (None, "does not exist"),
    "it is being deleted": (
        {**volume(), "metadata": {"name": "pv-1", "deletionTimestamp": "2026-11-27T10:00:00Z"}},
        "goes with its claim",
    ),
    "one of its name was made for another claim": (volume(uid="c-2"), "is not bound to the claim of namespace env-1"),
}


@pytest.mark.parametrize(("there", "told"), GONE.values(), ids=GONE)
async def test_a_volume_that_cannot_be_kept_is_said_to_be_gone_and_nothing_is_promised(
    there: dict[str, Any] | None, told: str
) -> None:
    api = FakeApi()
    if there is not None:
        api.put(PLACE, there)
    before = dict(api.held)
    with pytest.raises(Halt, match=told) as halted:
        await keeping(api).keep(api.client, KEEPING, "eu", CLAIM)
    assert isinstance(halted.value.verdict, Stalled)
    assert halted.value.verdict.reason == "VolumeGone"
    assert api.held == before


async def test_a_volume_that_goes_while_it_is_kept_ends_the_deletion_too() -> None:
    api = FakeApi()
    api.put(PLACE, volume())
    api.after = lambda method, path: api.held.pop(PLACE, None) if method == "POST" else None
    with pytest.raises(Halt) as halted:
        await keeping(api).keep(api.client, KEEPING, "eu", CLAIM)
    assert halted.value.verdict.reason == "VolumeGone"


async def test_a_volume_that_is_there_is_kept_once() -> None:
    api = FakeApi()
    api.put(PLACE, volume())
    for _ in range(2):
        await keeping(api).keep(api.client, KEEPING, "eu", CLAIM)
    kept = api.held[PLACE]
    assert (kept["spec"]["persistentVolumeReclaimPolicy"], kept["metadata"]["labels"][KEPT_LABEL]) == ("Retain", "true")
    assert [path for path in api.held if "/secrets/" in path] == ["/api/v1/namespaces/tenantry-system/secrets/kept-c-1"]
