"""The definitions as a cluster's users meet them: no warning, and kubectl's get, wait and explain read well."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tenantry.adapters.kubernetes.store import KubernetesStore
from tenantry.adapters.sources.read import read
from tenantry.kinds.admission import Admission
from tenantry.kinds.crds import KINDS, Kind
from tenantry.model.resource import GROUP, Document, held_of
from tests.cluster.control_plane import Cluster
from tests.cluster.fixtures import ROOT, client_of
from tests.scenario.tools import lacking

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
GOOD = ROOT / "tests/contract/manifests/good"
Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    if cluster.kubectl is None:
        lacking("there is no kubectl, neither beside the control plane nor on the PATH")

    def run(*arguments: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, input=given, timeout=60, check=False)

    return run


@pytest.fixture
def namespace(kubectl: Kubectl) -> str:
    name = f"k-{uuid.uuid4().hex[:10]}"
    assert kubectl("create", "namespace", name).returncode == 0
    return name


def environment(namespace: str, name: str = "dev") -> dict[str, Any]:
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"region": "home"},
    }


def status_of(generation: int, ready: str, reason: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": "", "observedGeneration": generation}
    at = "2026-11-21T08:00:00Z"
    return {"observedGeneration": generation, "url": "https://dev", "conditions": [{**condition, "lastTransitionTime": at}]}


async def write_status(cluster: Cluster, document: Document, status: Document) -> None:
    async with client_of(cluster) as client:
        await KubernetesStore(client).set_status(held_of(document), status)


async def made(cluster: Cluster, document: Document) -> Document:
    async with client_of(cluster) as client:
        return await KubernetesStore(client).create(document)


@pytest.mark.parametrize("path", sorted((ROOT / "crds").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_definition_is_accepted_without_a_warning(path: Path, kubectl: Kubectl) -> None:
    # Under another group, so that it is made anew, with every check that only a create has.
    document = yaml.safe_load(path.read_text())
    document["spec"]["group"] = "tests.tenantry.dev"
    document["metadata"]["name"] = f"{document['spec']['names']['plural']}.tests.tenantry.dev"
    made = kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=json.dumps(document))
    assert (made.returncode, made.stderr) == (0, "")


def test_definitions_are_structural_and_their_names_taken(kubectl: Kubectl) -> None:
    items = json.loads(kubectl("get", "crd", "-o", "json").stdout)["items"]
    ours = [item for item in items if item["spec"]["group"] == "tenantry.dev"]
    conditions = {(each["type"], each["status"]) for item in ours for each in item["status"]["conditions"]}
    assert len(ours) == len(KINDS)
    assert conditions == {("NamesAccepted", "True"), ("Established", "True")}


async def test_a_new_object_does_not_look_done(cluster: Cluster, namespace: str) -> None:
    created = await made(cluster, environment(namespace))
    assert created["status"] == {"observedGeneration": -1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_kubectl_knows_the_short_name(kind: Kind, kubectl: Kubectl) -> None:
    listed = kubectl("get", kind.SHORT, "-A")
    assert listed.returncode == 0, listed.stderr


async def test_get_shows_ready_reason_and_a_column_of_the_kind(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    created = await made(cluster, environment(namespace))
    await write_status(cluster, created, status_of(1, "False", "Progressing"))
    header, row = kubectl("get", "tenv", "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "READY", "REASON", "VERSION", "WAITS", "FOR", "AGE"]
    assert row.split()[:3] == ["dev", "False", "Progressing"]
    wide, row = kubectl("get", "tenv", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert "URL" in wide.split()
    assert "https://dev" in row.split()


async def test_get_tenantry_shows_every_kind(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    await made(cluster, environment(namespace))
    listed = kubectl("get", "tenantry", "-A")
    assert listed.stderr == ""
    assert "environment.tenantry.dev/dev" in listed.stdout


async def test_wait_for_ready_ends_when_it_is(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    created = await made(cluster, environment(namespace))
    arguments = ("wait", "--for=condition=Ready", "tenv/dev", "-n", namespace, "--timeout=30s")
    waiting = asyncio.create_task(asyncio.to_thread(kubectl, *arguments))
    await write_status(cluster, created, status_of(1, "True", "Succeeded"))
    ended = await waiting
    assert (ended.returncode, ended.stdout) == (0, "environment.tenantry.dev/dev condition met\n")


async def test_fields_select(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    await made(cluster, environment(namespace))
    for region, names in (("home", "environment.tenantry.dev/dev\n"), ("away", "")):
        selected = kubectl("get", "tenv", "-n", namespace, "--field-selector", f"spec.region={region}", "-o", "name")
        assert selected.stdout == names


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.KIND)
def test_explain_describes_every_field_of_a_spec(kind: Kind, kubectl: Kubectl) -> None:
    explained = kubectl("explain", f"{kind.PLURAL}.{GROUP}")
    assert explained.returncode == 0, explained.stderr
    assert "<empty>" not in explained.stdout.split("FIELDS:")[0]
    fields = kubectl("explain", f"{kind.PLURAL}.spec", "--recursive").stdout
    declared = kind.model_fields["spec"].annotation
    assert isinstance(declared, type) and issubclass(declared, BaseModel)
    for name, field in declared.model_fields.items():
        assert (field.alias or name) in fields


def documents_of(text: str) -> list[Any]:
    """JSON documents one after the other."""
    decoder, documents = json.JSONDecoder(), []
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    return documents


def test_kubectl_reads_the_good_manifests_as_we_do(kubectl: Kubectl) -> None:
    """Its YAML is another one: N, 1e3, 0o17, 1:30 and dates. What a server would store of both readings is equal."""
    admission, paths = Admission(), sorted(GOOD.glob("*.yaml"))
    ours = [admission.admit(document.value, None) for path in paths for document in read(path.read_bytes())]
    for name in {str(document["metadata"].get("namespace", "")) for document in ours} - {""}:
        kubectl("create", "namespace", name)

    given = [part for path in paths for part in ("-f", path)]
    created = kubectl("create", "--dry-run=server", "-o", "json", *given)

    assert created.returncode == 0, created.stderr
    theirs = documents_of(created.stdout)
    assert len(theirs) == len(ours)
    for their, our in zip(theirs, ours, strict=True):
        for field in our.keys() - {"metadata", "status"}:
            assert their[field] == our[field]
        assert their["metadata"].get("annotations") == our["metadata"].get("annotations")
        assert their["metadata"].get("labels", {}).items() >= our["metadata"].get("labels", {}).items()
