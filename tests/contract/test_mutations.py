"""Embedded admission and a real API server refuse the same mutated manifests at the same field."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.wire import endpoint
from tenantry.adapters.kubernetes.store import WRITE, KubernetesStore
from tenantry.adapters.sources.read import read
from tenantry.kinds import crds
from tenantry.kinds.admission import Admission
from tenantry.model.verdicts import AlreadyExists, Invalid
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import client_of
from tests.contract.mutations import Mutation, mutations

GOOD = Path(__file__).parent / "manifests" / "good"
KINDS = tuple(kind.KIND for kind in crds.KINDS)
AT_ONCE = 8
LONGEST_S = 240.0


def _mutations(kind: str) -> dict[str, dict[str, Any]]:
    """The faults of a kind by name: of each field the first good manifest that has its parent."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(GOOD.glob("*.yaml")):
        for raw in read(path.read_bytes()):
            if raw.value.get("kind") == kind:
                for name, document in mutations(raw.value):
                    found.setdefault(name, document)
    return found


def _by_admission(admission: Admission, document: dict[str, Any]) -> set[str]:
    try:
        admission.admit(document, None)
    except Invalid as refused:
        return {problem.field for problem in refused.problems}
    return set()


def _named(fields: set[str]) -> set[str]:
    """Without the object as a whole where a field is named: rules over all of it fail, or cannot run, beside the fault."""
    return fields - {""} or fields


async def _by_the_server(client: Client, kind: str, document: dict[str, Any]) -> set[str]:
    path = endpoint(kind).path(document["metadata"].get("namespace", ""))
    try:
        await client.request("POST", path, query={**WRITE, "dryRun": "All"}, body=document)
    except Invalid as refused:
        return {problem.field for problem in refused.problems}
    return set()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_faults_enough(kind: str) -> None:
    assert len(_mutations(kind)) >= 20, f"too few fields to break: add manifests of {kind} to tests/contract/manifests/good"


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_refused_or_named_as_harmless(kind: str, admission: Admission) -> None:
    accepted = {name for name, document in _mutations(kind).items() if not _by_admission(admission, document)}

    assert accepted <= HARMLESS


HARMLESS = frozenset({"Region: spec is missing", "Tenant: spec is missing"})
"""Mutations that leave a manifest good."""
LENIENT = frozenset({"Operation: spec.scheduledOn is a list"})
"""Faults that an API server lets pass: its type check skips lists where a format is declared (kube-openapi)."""


@pytest.fixture(scope="module")
def admission() -> Admission:
    return Admission()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with client_of(cluster) as client:
        yield client


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("kind", KINDS)
async def test_an_api_server_refuses_each_fault_at_the_same_field(kind: str, client: Client, admission: Admission) -> None:
    faults, turns = _mutations(kind), asyncio.Semaphore(AT_ONCE)
    for name in {document["metadata"].get("namespace") for document in faults.values()} - {None}:
        with suppress(AlreadyExists):
            await KubernetesStore(client).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def judged(fault: Mutation) -> tuple[str, set[str], set[str]]:
        async with turns:
            server = await _by_the_server(client, kind, fault.document)
        return fault.name, _by_admission(admission, fault.document), server

    async with asyncio.timeout(LONGEST_S):
        verdicts = await asyncio.gather(*(judged(Mutation(*each)) for each in faults.items()))

    assert [each for each in verdicts if _named(each[1]) != _named(each[2]) and each[0] not in LENIENT] == []
