"""The namespace of an engine whose labels somebody took off: still seen, put right, and gone at the end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tenantry.adapters.kubernetes.engines.kept_volumes import KEPT
from tenantry.adapters.kubernetes.engines.workload import ID_LABEL, labels_of
from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof
from tenantry.model.facts import EngineRef
from tenantry.model.resource import GROUP
from tenantry.model.verdicts import Halt, Waiting
from tests.support.deployer_kit import Kit, kit_of
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi

LABELS = sorted(labels_of(EngineRef("n", "e", "i")))


@dataclass
class World:
    """An engine that runs on an API server in memory."""

    api: FakeApi
    kit: Kit

    @property
    def namespace(self) -> str:
        return f"/api/v1/namespaces/{self.kit.namespace}"

    @property
    def claim(self) -> str:
        return f"{self.namespace}/persistentvolumeclaims/engine"

    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.api.held[self.namespace]["metadata"]["labels"]
        return found

    def record(self) -> None:
        """The status knows the namespace by its uid, as after the first pass."""
        self.kit.declared.proven = PlaceProof(uid=self.api.held[self.namespace]["metadata"]["uid"])

    def bind(self) -> None:
        """The claim has a volume."""
        self.api.held[self.claim]["spec"]["volumeName"] = "pv-1"
        spec = {"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete"}
        spec["claimRef"] = {"uid": self.api.held[self.claim]["metadata"]["uid"]}
        document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"}, "spec": spec}
        self.api.put("/api/v1/persistentvolumes/pv-1", document)


@pytest.fixture
async def world() -> World:
    api = FakeApi()
    kit = await kit_of(api.client)
    await kit.deploy()
    return World(api, kit)


def proofs(world: World) -> dict[str, PlaceProof]:
    """Return the evidence: the namespace's uid in the status, or an id that is the Environment's own."""
    uid = world.api.held[world.namespace]["metadata"]["uid"]
    return {"uid": PlaceProof(uid=uid), "id": PlaceProof(world.kit.ref.id)}


# Without the label of the id, which a policy keeps, only the uid is a proof.
PROVEN = [(label, proof) for label in LABELS for proof in ("uid", "id") if (label, proof) != (ID_LABEL, "id")]


@pytest.mark.parametrize(("label", "proof"), PROVEN)
async def test_a_label_that_is_taken_off_is_put_back(world: World, label: str, proof: str) -> None:
    world.kit.declared.proven = proofs(world)[proof]
    before = world.labels()
    world.api.relabel(world.namespace, {label: None})
    facts = await world.kit.engine()
    assert (facts.spec, facts.missing) == (None, "")
    assert any(each.startswith("its Namespace was changed at metadata.labels") for each in facts.altered)
    await world.kit.deploy()
    assert world.labels() == before
    assert (await world.kit.engine()).altered == ()


@pytest.mark.parametrize("label", LABELS)
async def test_a_deletion_ends_only_when_the_namespace_is_gone(world: World, label: str) -> None:
    world.record()
    world.api.relabel(world.namespace, {label: None})
    with pytest.raises(Halt) as halted:
        await world.kit.deployer.undeploy(world.kit.ref)
    assert isinstance(halted.value.verdict, Waiting)
    assert (await world.kit.engine()).status == "DELETING"
    world.api.finish(world.kit.namespace)
    await world.kit.deployer.undeploy(world.kit.ref)
    assert await world.kit.deployer.engine(world.kit.ref) is None


async def test_labels_of_another_environment_give_it_nothing(world: World) -> None:
    """Somebody labels the namespace as another's, whose Environment asks for the id of this one."""
    world.record()
    foreign = {f"{GROUP}/namespace": "tenant-other", f"{GROUP}/environment": "theirs"}
    world.api.relabel(world.namespace, foreign)
    assert "its Namespace was changed" in "".join((await world.kit.engine()).altered)
    await world.kit.deploy()
    assert world.labels() == {**world.labels(), **labels_of(world.kit.ref)}


@pytest.mark.parametrize(
    "proof", [NO_PROOF, PlaceProof(uid="another"), PlaceProof("another"), PlaceProof("another", "another")], ids=str
)
@pytest.mark.parametrize("label", LABELS)
async def test_a_namespace_that_nothing_proves_is_left_alone(world: World, label: str, proof: PlaceProof) -> None:
    world.kit.declared.proven = proof
    world.api.relabel(world.namespace, {label: None})
    held = dict(world.api.held)
    assert await world.kit.deployer.engine(world.kit.ref) is None
    with pytest.raises(Halt, match=world.kit.namespace) as halted:
        await world.kit.deploy()
    assert halted.value.verdict.reason == "EngineNamespaceTaken"
    await world.kit.deployer.undeploy(world.kit.ref)
    await world.kit.deployer.snapshot(world.kit.ref)
    assert world.api.held == held


async def test_a_namespace_with_another_engines_id_is_not_taken_by_its_uid(world: World) -> None:
    world.record()
    world.api.relabel(world.namespace, {ID_LABEL: "another"})
    assert await world.kit.deployer.engine(world.kit.ref) is None


@pytest.mark.parametrize("label", LABELS)
async def test_a_snapshot_keeps_the_volume_whatever_labels_the_claim_has(world: World, label: str) -> None:
    world.bind()
    world.api.relabel(world.claim, {label: None})
    await world.kit.deployer.snapshot(world.kit.ref)
    volume = world.api.held["/api/v1/persistentvolumes/pv-1"]
    assert (volume["metadata"]["labels"][KEPT], volume["spec"]["persistentVolumeReclaimPolicy"]) == ("true", "Retain")
