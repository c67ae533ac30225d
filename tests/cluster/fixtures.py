"""One cluster a test session, with Tenantry's definitions installed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.adapters.kubernetes.client.credentials import from_kubeconfig
from tenantry.adapters.kubernetes.client.http import APPLY_PATCH, Client
from tenantry.model.verdicts import Halt
from tests.cluster.binaries import find
from tests.cluster.control_plane import Cluster, control_plane, given_cluster
from tests.scenario.tools import lacking
from tests.support.built_programs import MissingProgram
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
POLICIES = Path(__file__).parent / "policies.yaml"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server; where none can be had, the test is skipped and says why."""
    with _found(tmp_path_factory.mktemp("cluster")) as found:
        asyncio.run(install(found))
        yield replace(found, kubectl=found.kubectl or _path_of("kubectl"))


@contextmanager
def _found(folder: Path) -> Iterator[Cluster]:
    given = given_cluster()
    if given is not None:
        yield given
        return
    with own_plane(folder) as own:
        yield own


@contextmanager
def own_plane(folder: Path) -> Iterator[Cluster]:
    """A control plane that a test may kill: never one that was given."""
    try:
        programs = find()
    except MissingProgram as missing:
        lacking(str(missing))
    with control_plane(programs, folder) as own:
        yield own


def _path_of(program: str) -> Path | None:
    found = shutil.which(program)
    return Path(found) if found else None


@asynccontextmanager
async def client_of(cluster: Cluster) -> AsyncIterator[Client]:
    """A client with the administrator's rights."""
    client = Client(from_kubeconfig(cluster.kubeconfig))
    try:
        yield client
    finally:
        await client.close()


async def install(cluster: Cluster) -> None:
    definitions = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    policies = list(yaml.safe_load_all(POLICIES.read_text()))
    async with client_of(cluster) as client:
        paths = [await _apply(client, document) for document in definitions]
        for path in paths:
            await until(lambda path=path: _established(client, path), f"{path} is not established")
        for document in policies:
            await _apply(client, document)
        await until(lambda: _guarded(client), "the policies are not in force")


async def _apply(client: Client, document: dict[str, Any]) -> str:
    plural = document["kind"].lower() + "s" if not document["kind"].endswith("y") else document["kind"].lower()[:-1] + "ies"
    path = f"/apis/{document['apiVersion']}/{plural}/{document['metadata']['name']}"
    query = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
    await client.request("PATCH", path, query=query, body=document, content_type=APPLY_PATCH)
    return path


async def until(holds: Any, otherwise: str) -> None:
    """Waits for a condition; asks often."""
    await eventually(holds, shows=lambda: otherwise)


async def _established(client: Client, path: str) -> bool:
    definition = await client.request("GET", path)
    conditions = definition.get("status", {}).get("conditions") or ()  # null for a moment after it was made
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def _guarded(client: Client) -> bool:
    """A policy comes into force a moment after it was made: a dry run of what it forbids shows when."""
    protected = {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "tests-protected"},
        "spec": {"deletionProtection": True},
    }
    collection = "/apis/tenantry.dev/v1alpha1/tenants"
    path = f"{collection}/tests-protected"
    try:
        await client.request("POST", collection, body=protected)
    except Halt as halt:
        if halt.verdict.reason != "AlreadyExists":
            raise
    try:
        await client.request("DELETE", path, query={"dryRun": "All"})
    except Halt as halt:
        if halt.verdict.reason != "Forbidden":
            raise
        free = [{"op": "add", "path": "/spec/deletionProtection", "value": False}]
        await client.request("PATCH", path, body=free, content_type="application/json-patch+json")
        await client.request("DELETE", path)
        return True
    return False
