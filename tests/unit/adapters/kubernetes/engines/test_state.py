"""An engine as its workload and pod tell of it."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.adapters.kubernetes.engines.state import awaits, state_of, stuck_pods, was_given


def workload(ready: int = 0, updated: int = 1, seen: int = 3) -> dict[str, Any]:
    status = {"observedGeneration": seen, "readyReplicas": ready, "updatedReplicas": updated}
    return {"metadata": {"generation": 3}, "status": status}


def pod(waiting: dict[str, Any] | None = None, last: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    state = {"waiting": waiting} if waiting else {"running": {}}
    container = {"name": "engine", "state": state, "lastState": {"terminated": last} if last else {}}
    return {"status": {"phase": "Pending", "containerStatuses": [container], **status}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient memory.",
}
PULL = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "tenantry:9"'}
GOING = {"metadata": {"name": "engine-0", "deletionTimestamp": "2026-11-27T12:00:00Z"}}
CRASH = {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}

STATES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[str, str]]] = {
    "ready": (workload(ready=1), [], ("RUNNING", "")),
    "not seen by its controller yet": (workload(ready=1, seen=2), [], ("PENDING", "its pod does not exist yet")),
    "ready, and about to be replaced": (workload(ready=1, updated=0), [pod()], ("PENDING", "its pod is Pending, not ready yet")),
    "without a status": ({"metadata": {"generation": 1}}, [], ("PENDING", "its pod does not exist yet")),
    "running and not ready": (workload(), [pod(phase="Running")], ("PENDING", "its pod is Running, not ready yet")),
    "being made": (workload(), [pod({"reason": "ContainerCreating"})], ("PENDING", "ContainerCreating")),
    "unschedulable": (
        workload(),
        [{"status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}],
        ("FAILED", "Unschedulable: 0/3 nodes are available: 3 Insufficient memory."),
    ),
    "without its image": (workload(), [pod(PULL)], ("FAILED", 'ImagePullBackOff: Back-off pulling image "tenantry:9"')),
    "crash-looping": (
        workload(),
        [pod(CRASH, {"reason": "Error", "exitCode": 1})],
        ("FAILED", "CrashLoopBackOff: back-off 20s restarting failed container; last ended by Error, exit code 1"),
    ),
    "out of memory": (
        workload(),
        [pod(CRASH, {"reason": "OOMKilled", "exitCode": 137})],
        ("FAILED", "CrashLoopBackOff: back-off 20s restarting failed container; last ended by OOMKilled, exit code 137"),
    ),
    "killed for its memory, and starting again": (
        workload(),
        [pod(last={"reason": "OOMKilled", "exitCode": 137})],
        ("PENDING", "its pod is Pending, not ready yet; last ended by OOMKilled, exit code 137"),
    ),
    "ended, and not started again yet": (
        workload(),
        [
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}],
                }
            }
        ],
        ("FAILED", "OOMKilled: exit code 137"),
    ),
    "asked to end, for a restart or a drain": (
        workload(updated=0),
        [
            GOING
            | {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 137}}}],
                }
            }
        ],
        ("PENDING", "its pod is stopping"),
    ),
    "asked to end, and the next does not start": (
        workload(),
        [GOING | {"status": {"phase": "Running"}}, pod(CRASH)],
        ("FAILED", "CrashLoopBackOff: back-off 20s restarting failed container"),
    ),
    "waiting for an archive": (
        workload(),
        [pod({"reason": "PodInitializing"}, initContainerStatuses=[{"name": "restore", "state": {"running": {}}}])],
        ("PENDING", "PodInitializing"),
    ),
    "given its archive": (
        workload(),
        [pod(initContainerStatuses=[{"name": "restore", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}])],
        ("PENDING", "its pod is Pending, not ready yet"),
    ),
    "without an image that takes archives": (
        workload(),
        [pod({"reason": "PodInitializing"}, initContainerStatuses=[{"name": "restore", "state": {"waiting": PULL}}])],
        ("FAILED", 'ImagePullBackOff: Back-off pulling image "tenantry:9"'),
    ),
    "evicted": (
        workload(),
        [{"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}}],
        ("FAILED", "Evicted: The node was low on resource: memory."),
    ),
}


@pytest.mark.parametrize(("stateful_set", "pods", "told"), STATES.values(), ids=STATES)
def test_an_engine_is_told_by_its_pods(stateful_set: dict[str, Any], pods: list[dict[str, Any]], told: tuple[str, str]) -> None:
    assert state_of(stateful_set, pods) == told


@pytest.mark.parametrize(
    ("name", "state", "waits"),
    [("restore", "running", True), ("restore", "terminated", False), ("restore", "waiting", False), ("istio", "running", False)],
)
def test_a_pod_waits_for_an_archive_while_its_own_first_container_runs(name: str, state: str, waits: bool) -> None:
    assert awaits({"status": {"initContainerStatuses": [{"name": name, "state": {state: {}}}]}}) is waits
    assert not awaits({})


@pytest.mark.parametrize(
    ("state", "given"),
    [({"terminated": {"exitCode": 0}}, True), ({"terminated": {"exitCode": 1}}, False), ({"running": {}}, False)],
)
def test_a_pod_was_given_its_archive_when_that_container_ended_well(state: dict[str, Any], given: bool) -> None:
    assert was_given({"status": {"initContainerStatuses": [{"name": "restore", "state": state}]}}) is given
    assert not was_given({})


READY = {"type": "Ready", "status": "True"}
STUCK: dict[str, tuple[str, dict[str, Any], dict[str, Any], bool]] = {
    "an older template, never ready": ("a", {"status": {}}, {}, True),
    "the present template": ("b", {"status": {}}, {}, False),
    "an older template, ready": ("a", {"status": {"conditions": [READY]}}, {}, False),
    "on its way out": ("a", {"status": {}}, {"deletionTimestamp": "2026-11-21T10:00:00Z"}, False),
}


@pytest.mark.parametrize(("revision", "body", "metadata", "stuck"), STUCK.values(), ids=STUCK)
def test_a_pod_in_the_way_of_a_newer_template_is_stuck(
    revision: str, body: dict[str, Any], metadata: dict[str, Any], stuck: bool
) -> None:
    made = {"metadata": {"labels": {"controller-revision-hash": revision}, **metadata}, **body}
    owner = workload()
    owner["status"]["updateRevision"] = "b"
    assert (stuck_pods(owner, [made]) == [made]) is stuck


def test_what_its_controller_has_not_seen_yet_makes_no_pod_stuck() -> None:
    owner = workload(seen=2)
    owner["status"]["updateRevision"] = "b"
    assert stuck_pods(owner, [{"metadata": {"labels": {"controller-revision-hash": "a"}}}]) == []
