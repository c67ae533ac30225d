"""The same verdict, and the same field, wherever a manifest is applied: embedded, and on a real API server.

manifests/good are accepted. manifests/bad are refused with the path of their first line (`# expect: spec.slug`; `''` is the
object as a whole), and with the text of the second, if it has one (`# says: ...`). manifests/changes hold an object twice: the
second is an update of the first, refused likewise or `ok`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import endpoint
from tenantry.adapters.kubernetes.store import WRITE, KubernetesStore
from tenantry.adapters.sources.read import Raw, read
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Document, held_of
from tenantry.model.verdicts import AlreadyExists, Invalid
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of

MANIFESTS = Path(__file__).parent / "manifests"


def _manifests(folder: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((MANIFESTS / folder).glob("*.yaml"))]


def _read(path: Path) -> tuple[Raw, ...]:
    return tuple(read(path.read_bytes()))


def _expected(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# expect: ").strip("'")


def _said(path: Path) -> str:
    """The text that the refusal must have there, or `""`."""
    return path.read_text().splitlines()[1].partition("# says: ")[2]


def _refuses(refused: Invalid, path: Path, field: str) -> bool:
    return any(problem.field == field and _said(path) in problem.reason for problem in refused.problems)


@pytest.fixture(scope="module")
def admission() -> Admission:
    return Admission()


@pytest.mark.parametrize("path", _manifests("good"))
def test_a_good_manifest_is_accepted(path: Path, admission: Admission) -> None:
    (manifest,) = _read(path)

    assert admission.admit(manifest.value, None)["kind"] == manifest.value["kind"]


@pytest.mark.parametrize("path", _manifests("bad"))
def test_a_bad_manifest_is_refused_at_its_field(path: Path, admission: Admission) -> None:
    (manifest,) = _read(path)

    with pytest.raises(Invalid) as refused:
        admission.admit(manifest.value, None)

    assert _refuses(refused.value, path, _expected(path)), refused.value.problems


@pytest.mark.parametrize("path", _manifests("changes"))
def test_a_change_is_judged_by_what_was_there(path: Path, admission: Admission) -> None:
    before, after = _read(path)
    old = admission.admit(before.value, None)

    try:
        admission.admit(after.value, old)
        refused = {"ok"}
    except Invalid as error:
        refused = {problem.field for problem in error.problems}

    assert refused == {_expected(path)}


def test_the_corpus_is_large_enough() -> None:
    assert sum(1 for _ in MANIFESTS.rglob("*.yaml")) >= 80


# The same on an API server


DECODING = {"secret-not-base64": "", "secret-number": "stringData"}
"""A Secret that cannot be decoded is refused as well, but there the API server does not know which of its keys it was."""
on_a_cluster = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with client_of(cluster) as client:
        yield client


async def _dry_create(client: Client, document: Document) -> Document:
    """The document that a create would store, in a namespace that is there."""
    at = endpoint(document.get("kind", ""))
    namespace = document.get("metadata", {}).get("namespace", "")
    await _ensure_namespace(client, namespace if at.namespaced else "")
    path = at.path(namespace)
    return await client.request("POST", path, query={**WRITE, "dryRun": "All"}, body=document)


async def _ensure_namespace(client: Client, name: str) -> None:
    if name:
        with suppress(AlreadyExists):
            await KubernetesStore(client).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest.mark.parametrize("path", [pytest.param(*p.values, id=p.id, marks=on_a_cluster) for p in _manifests("good")])
async def test_an_api_server_accepts_it_as_well(path: Path, client: Client, admission: Admission) -> None:
    (manifest,) = _read(path)

    stored = await _dry_create(client, manifest.value)

    embedded = admission.admit(manifest.value, None)
    for field in embedded.keys() - {"metadata", "status"}:
        assert stored[field] == embedded[field]


@pytest.mark.parametrize("path", [pytest.param(*p.values, id=p.id, marks=on_a_cluster) for p in _manifests("bad")])
async def test_an_api_server_refuses_it_at_the_same_field(path: Path, client: Client) -> None:
    (manifest,) = _read(path)

    with pytest.raises(Invalid) as refused:
        await _dry_create(client, manifest.value)

    assert _refuses(refused.value, path, DECODING.get(path.stem, _expected(path))), refused.value.problems


@pytest.mark.parametrize("path", [pytest.param(*p.values, id=p.id, marks=on_a_cluster) for p in _manifests("changes")])
async def test_an_api_server_judges_the_change_alike(path: Path, client: Client) -> None:
    before, after = _read(path)
    store = KubernetesStore(client)
    await _ensure_namespace(client, before.value["metadata"].get("namespace", ""))
    stored = await store.create(before.value)

    try:
        await store.replace(after.value, stored["metadata"]["resourceVersion"])
        refused = {"ok"}
    except Invalid as error:
        refused = {problem.field for problem in error.problems}
    finally:
        await store.delete(held_of(stored)._replace(version=""))

    assert refused == {_expected(path)}
