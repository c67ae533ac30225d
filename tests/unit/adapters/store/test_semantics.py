from __future__ import annotations

from typing import Any

import pytest

from tenantry.adapters.store.semantics import (
    Create,
    Delete,
    Outcome,
    Replace,
    Request,
    SetFinalizers,
    SetStatus,
    Stamp,
    carry_out,
    placed,
)
from tenantry.model.resource import API_VERSION, FINALIZER, Document, Held, Ref
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Halt, Invalid, NotFound
from tests.unit.adapters.store.documents import ADMISSION

REF = Ref("Environment", "acme", "dev")
STAMP = Stamp("2026-11-21T10:00:00Z", "new-uid", "9")
NAMESPACE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "acme", "uid": "n", "resourceVersion": "1"},
}
CLOSING = {**NAMESPACE, "metadata": {**NAMESPACE["metadata"], "deletionTimestamp": STAMP.now}}


def stored(**metadata: Any) -> dict[str, Any]:
    identity = {"name": "dev", "namespace": "acme", "uid": "u", "resourceVersion": "5", "generation": 3}
    return {
        "apiVersion": API_VERSION,
        "kind": "Environment",
        "metadata": {**identity, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata},
        "spec": ADMISSION.admit(given(), None)["spec"],
        "status": {"observedGeneration": 3},
    }


def given(region: str = "home", **spec: Any) -> dict[str, Any]:
    metadata = {"name": "dev", "namespace": "acme"}
    return {"apiVersion": API_VERSION, "kind": "Environment", "metadata": metadata, "spec": {"region": region, **spec}}


def done(request: Request, current: Document | None, namespace: Document | None = NAMESPACE) -> Outcome:
    return carry_out(request, current, namespace, ADMISSION, STAMP)


HELD = Held(REF, "u", "5")
DELETING = {"deletionTimestamp": "2026-11-21T09:00:00Z", "finalizers": [FINALIZER]}
PROTECTED = {**stored(), "spec": {**stored()["spec"], "deletionProtection": True}}


@pytest.mark.parametrize(
    ("request_", "current", "event", "version", "generation"),
    [
        pytest.param(Create(REF, given()), None, "ADDED", "9", 1, id="create"),
        pytest.param(Replace(REF, given(), "5"), stored(), "", "5", 3, id="replace by the same"),
        pytest.param(Replace(REF, given(suspend=True), "5"), stored(), "MODIFIED", "9", 4, id="replace spec"),
        pytest.param(SetStatus(REF, HELD, {"observedGeneration": 3}), stored(), "", "5", 3, id="the same status"),
        pytest.param(SetStatus(REF, HELD, {"observedGeneration": 2}), stored(), "MODIFIED", "9", 3, id="status"),
        pytest.param(SetFinalizers(REF, HELD, (FINALIZER,)), stored(), "MODIFIED", "9", 3, id="finalizers"),
        pytest.param(SetFinalizers(REF, HELD, ()), stored(**DELETING), "DELETED", "9", 3, id="last finalizer released"),
        pytest.param(Delete(REF, HELD), stored(finalizers=[FINALIZER]), "MODIFIED", "9", 4, id="mark for deletion"),
        pytest.param(Delete(REF, HELD), stored(**DELETING), "", "5", 3, id="delete again"),
        pytest.param(Delete(REF, Held(REF, "", "")), stored(), "DELETED", "9", 4, id="delete without finalizers"),
    ],
)
def test_what_a_write_makes(request_: Request, current: Document | None, event: str, version: str, generation: int) -> None:
    outcome = done(request_, current)
    metadata = outcome.document["metadata"]
    assert (outcome.event, metadata["resourceVersion"], metadata["generation"]) == (event, version, generation)


@pytest.mark.parametrize(
    ("request_", "current", "namespace", "refusal"),
    [
        pytest.param(Create(REF, given()), stored(), NAMESPACE, AlreadyExists, id="create what is there"),
        pytest.param(Create(REF, given()), None, None, NotFound, id="create into no namespace"),
        pytest.param(Create(REF, given()), None, CLOSING, Forbidden, id="create into a deleting namespace"),
        pytest.param(Create(REF, {**given(), "spec": {}}), None, NAMESPACE, Invalid, id="create what the schema refuses"),
        pytest.param(Create(REF._replace(namespace=""), given()), None, NAMESPACE, Invalid, id="create nowhere"),
        pytest.param(Replace(REF, given(), "4"), stored(), NAMESPACE, Conflict, id="replace an older version"),
        pytest.param(Replace(REF, given("moved"), "5"), stored(), NAMESPACE, Invalid, id="replace what is immutable"),
        pytest.param(SetStatus(REF, HELD, {"phase": 7}), stored(), NAMESPACE, Invalid, id="ill-formed status"),
        pytest.param(
            SetStatus(REF, HELD._replace(version="4"), {"observedGeneration": 2}),
            stored(),
            NAMESPACE,
            Conflict,
            id="status of an older generation",
        ),
        pytest.param(
            SetFinalizers(REF, HELD, (FINALIZER, "example.com/x")),
            stored(**DELETING),
            NAMESPACE,
            Invalid,
            id="a new finalizer on a deleting object",
        ),
        pytest.param(Delete(REF, HELD), PROTECTED, NAMESPACE, Forbidden, id="delete what is protected"),
        pytest.param(Delete(REF, HELD._replace(uid="x")), stored(), NAMESPACE, Conflict, id="delete another uid"),
        pytest.param(Delete(REF, HELD), None, NAMESPACE, NotFound, id="delete what is absent"),
    ],
)
def test_what_a_write_is_refused_for(
    request_: Request, current: Document | None, namespace: Document | None, refusal: type[Halt]
) -> None:
    with pytest.raises(refusal):
        done(request_, current, namespace)


def test_a_status_about_this_generation_needs_no_version() -> None:
    outcome = done(SetStatus(REF, Held(REF, "u", "4"), {"observedGeneration": 3, "phase": "READY"}), stored())
    assert outcome.document["status"]["phase"] == "READY"


def test_core_kinds_have_no_generation() -> None:
    ref = Ref("Secret", "acme", "s")
    metadata = {"name": "s", "namespace": "acme"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "b"}}
    assert "generation" not in done(Create(ref, secret), None).document["metadata"]


def test_an_unknown_field_of_metadata_is_refused() -> None:
    document = given()
    document["metadata"]["lables"] = {"a": "b"}
    with pytest.raises(Invalid, match="lables"):
        done(Create(REF, document), None)


def test_a_namespace_given_to_a_cluster_scoped_kind_is_dropped() -> None:
    metadata = {"name": "home", "namespace": "acme"}
    region = {"apiVersion": API_VERSION, "kind": "Region", "metadata": metadata, "spec": {}}
    taken = placed(Create(Ref("Region", "acme", "home"), region), ADMISSION)
    assert taken.ref == Ref("Region", "", "home")
    assert isinstance(taken, Create) and "namespace" not in taken.document["metadata"]
