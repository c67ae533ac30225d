"""The owner of an engine's namespace, whatever became of its labels."""

from __future__ import annotations

import pytest

from tenantry.kinds.environment.ownership import NO_PROOF, PlaceProof, is_proven, place_proof
from tenantry.kinds.environment.spec import EngineStatus, Environment, EnvironmentSpec, EnvironmentStatus
from tenantry.model.resource import Metadata

ID = "8f1c5c5d-0812-4a2d-910f-560533b8992e"
OURS, FOREIGN = PlaceProof(ID, "ns-1"), PlaceProof(uid="ns-2")
CASES = {
    "the id is the Environment's own": ("ns-9", ID, OURS, True),
    "the uid was recorded": ("ns-1", ID, PlaceProof(uid="ns-1"), True),
    "the uid was recorded and the id is off": ("ns-1", "", PlaceProof(uid="ns-1"), True),
    "no id, and another uid": ("ns-9", "", OURS, False),
    "another engine's id": ("ns-1", "another", OURS, False),
    "a declared id, and another uid": ("ns-1", ID, FOREIGN, False),
    "nothing is known": ("ns-1", ID, NO_PROOF, False),
    "nothing is known, nor labelled": ("", "", NO_PROOF, False),
}


@pytest.mark.parametrize(("uid", "labelled", "proof", "proven"), CASES.values(), ids=CASES)
def test_a_namespace_is_proven_by_what_nobody_can_declare(uid: str, labelled: str, proof: PlaceProof, proven: bool) -> None:
    assert is_proven(uid, labelled, ID, proof) is proven


def environment(uid: str, declared: str | None, recorded: str | None) -> Environment:
    spec = EnvironmentSpec.model_validate({"region": "eu", "id": declared})
    status = EnvironmentStatus(engine=EngineStatus(id=recorded, name="engine-dev", url="")) if recorded is not None else None
    given = {"status": status} if status is not None else {}
    return Environment(metadata=Metadata(name="dev", namespace="tenant-acme", uid=uid), spec=spec, **given)


def test_an_id_that_was_declared_proves_nothing() -> None:
    assert place_proof(environment("u-1", None, None)) == PlaceProof("u-1", "")
    assert place_proof(environment("u-1", None, "ns-1")) == PlaceProof("u-1", "ns-1")
    assert place_proof(environment("u-1", ID, None)) == NO_PROOF
    assert place_proof(environment("u-1", ID, "ns-1")) == PlaceProof("", "ns-1")
