"""The release of an engine's pod."""

from __future__ import annotations

from typing import Any

from tenantry.adapters.kubernetes.engines.releases import POD_MARK, keeping_pod, marked, next_of, version_of
from tenantry.model.resource import Document
from tests.unit.kinds.factories import table


def workload(image: str = "here/tenantry:1", replicas: int = 1, database: str = "a", **pod: Any) -> Document:
    """As it is applied."""
    template = {
        "metadata": {"annotations": {"tenantry.dev/database": database}},
        "spec": {"containers": [{"name": "engine", "image": image}], **pod},
    }
    body = {"kind": "StatefulSet", "metadata": {"name": "engine"}, "spec": {"replicas": replicas, "template": template}}
    return marked((body,))[0]


def altered(image: str) -> Document:
    """One whose image somebody else has changed."""
    changed = workload()
    spec = {**changed["spec"], "template": workload(image)["spec"]["template"]}
    return {**changed, "spec": spec}


def unmarked() -> Document:
    """One that an older release has applied."""
    given = workload()
    return {**given, "metadata": {"name": "engine"}}


@table(
    {
        "the same pod waits for nothing": ((workload(), workload()), ""),
        "another release is the next": ((workload(), workload("here/tenantry:2")), "2"),
        "a registry's port is no version": ((workload("here:5000/tenantry:1"), workload("here:5000/tenantry:2")), "2"),
        "another size is none": ((workload(), workload(replicas=2)), ""),
        "what somebody else has changed is none": ((altered("here/tenantry:evil"), workload()), ""),
        "what an older release has applied is compared": ((unmarked(), workload("here/tenantry:2")), "2"),
        "what an older release has applied, and is as it is to be, waits for nothing": ((unmarked(), workload()), ""),
        "none waits for nothing": ((None, workload()), ""),
    }
)
def test_the_next_version(seen: tuple[Document | None, Document], expected: str) -> None:
    assert next_of(*seen) == expected


def test_another_pod_of_the_same_version_has_a_name_of_its_own() -> None:
    other = next_of(workload(), workload(terminationGracePeriodSeconds=7))
    assert other.startswith("1+")
    assert other != next_of(workload(), workload(terminationGracePeriodSeconds=8))


def test_a_workload_keeps_its_pod_and_nothing_else() -> None:
    real, wanted = workload(), workload("here/tenantry:2", replicas=2, database="b")
    kept = keeping_pod(wanted, real)
    assert version_of(kept) == "1"
    assert kept["metadata"]["annotations"][POD_MARK] == real["metadata"]["annotations"][POD_MARK]
    assert kept["spec"]["replicas"] == 2
    assert kept["spec"]["template"]["metadata"] == wanted["spec"]["template"]["metadata"]


def test_what_somebody_else_has_changed_is_not_kept() -> None:
    assert keeping_pod(workload(), altered("here/tenantry:evil")) == workload()


def test_a_digest_is_no_version() -> None:
    assert version_of(workload("here/tenantry@sha256:0123")) == ""
