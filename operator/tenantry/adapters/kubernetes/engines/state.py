"""The state of an engine, read from its workload and pod. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tenantry.adapters.kubernetes.engines.workload import RESTORE, spec_of
from tenantry.model.facts import MOVING_MARK, DataPlace, EngineRoute
from tenantry.model.resource import Document

_FAILURES = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)

RESTS = frozenset({"RUNNING", "SLEEPING"})
"""States in which no pod has anything more to tell."""


def state_of(stateful_set: Document, pods: Sequence[Document]) -> tuple[str, str]:
    """RUNNING, SLEEPING, PENDING or FAILED, and the pod's own reason. An engine sleeps as soon as it is deployed so."""
    if deployed_as(stateful_set, None).asleep:
        return "SLEEPING", ""
    status = stateful_set.get("status") or {}
    current = status.get("observedGeneration", 0) >= stateful_set["metadata"].get("generation", 0)
    if current and status.get("readyReplicas", 0) >= 1 and status.get("updatedReplicas", 0) >= 1:
        return "RUNNING", ""
    # The containers of a pod that is going end as they were asked to: by a restart for another release, or a drain of its node.
    for pod in (each for each in pods if not _is_going(each)):
        failure = _failure(pod)
        if failure:
            return "FAILED", failure
    return "PENDING", next((_progress(pod) for pod in pods), "its pod does not exist yet")


class DeployedAs(NamedTuple):
    """The facts of an engine as it was deployed, whatever somebody changed since. They are those of EngineFacts.

    place: of its data; route: None where no host leads to it; asleep: since when, `""` for one that is to run; coming: `Reserved`
    also for an engine without a workload.
    """

    place: DataPlace
    route: EngineRoute | None
    asleep: str
    coming: str


def deployed_as(stateful_set: Document | None, ingress: Document | None) -> DeployedAs:
    """Return how an engine was deployed, by its workload and its Ingress."""
    spec = spec_of(stateful_set) if stateful_set is not None else None
    if spec is None:
        return DeployedAs("", None, "", "" if stateful_set is not None else "Reserved")
    place: DataPlace = "Server" if spec.database_secret else "Folder"
    coming = "Reserved" if spec.restoring == MOVING_MARK else ""
    return DeployedAs(place, spec.ref.route if ingress is not None else None, spec.asleep, coming)


def stuck_pods(stateful_set: Document, pods: Sequence[Document]) -> list[Document]:
    """Pods that never became ready, of an older template than the present one: their controller waits for them without end."""
    status = stateful_set.get("status") or {}
    if status.get("observedGeneration", 0) < stateful_set["metadata"].get("generation", 0):
        return []
    wanted = status.get("updateRevision", "")
    return [pod for pod in pods if wanted not in ("", _revision(pod)) and not is_ready(pod) and not _is_going(pod)]


def awaits(pod: Document) -> bool:
    """Return True if the pod waits for an archive. Its volume then holds nothing, or half of one."""
    return "running" in _restore_state(pod)


def was_given(pod: Document) -> bool:
    """Return True if the pod has received its archive."""
    return bool(_restore_state(pod).get("terminated", {}).get("exitCode") == 0)


def _restore_state(pod: Document) -> Document:
    containers = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return next((each.get("state") or {} for each in containers if each["name"] == RESTORE), {})


def _revision(pod: Document) -> str:
    return str((pod["metadata"].get("labels") or {}).get("controller-revision-hash", ""))


def is_ready(pod: Document) -> bool:
    """Return True if the kubelet has seen that the pod is ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_going(pod: Document) -> bool:
    return "deletionTimestamp" in pod.get("metadata", {})


def _failure(pod: Document) -> str:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _sentence(condition.get("reason", "Unschedulable"), condition.get("message", ""))
    if status.get("phase") == "Failed":
        return _sentence(status.get("reason", "Failed"), status.get("message", ""))
    first = status.get("initContainerStatuses") or ()
    for container in (*first, *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if ended and container in first and ended.get("exitCode") == 0:
            continue
        if ended:
            return _sentence(ended.get("reason", "Ended"), ended.get("message", ""), f"exit code {ended.get('exitCode')}")
        if waiting.get("reason") in _FAILURES:
            return _sentence(waiting["reason"], waiting.get("message", ""), _last_end(container))
    return ""


def _last_end(container: Document) -> str:
    ended = (container.get("lastState") or {}).get("terminated")
    return f"last ended by {ended.get('reason')}, exit code {ended.get('exitCode')}" if ended else ""


def _progress(pod: Document) -> str:
    if _is_going(pod):
        return "its pod is stopping"
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting, last = (container.get("state") or {}).get("waiting"), _last_end(container)
        if waiting:
            return _sentence(waiting.get("reason", "Waiting"), waiting.get("message", ""), last)
        if last:
            return _joined(f"its pod is {status.get('phase', 'Pending')}, not ready yet", last)
    return f"its pod is {status.get('phase', 'Pending')}, not ready yet"


def _sentence(reason: str, *parts: str) -> str:
    told = _joined(*parts)
    return f"{reason}: {told}" if told else reason


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
