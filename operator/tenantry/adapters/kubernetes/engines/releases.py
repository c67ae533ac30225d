"""The release of an engine's pod, and the release after a restart. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson

from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.model.resource import GROUP, Document

POD_MARK = f"{GROUP}/pod"
"""On a workload: a digest of the pod that it was given. What differs while this is the same, somebody else has changed."""


def marked(objects: Iterable[Document]) -> tuple[Document, ...]:
    """The objects of an engine, its workload with the mark of its pod."""
    return tuple(_with_mark(each, _digest(each)) if each["kind"] == "StatefulSet" else each for each in objects)


def keeping_pod(wanted: Document, real: Document | None) -> Document:
    """Return the wanted workload, keeping the pod of another release.

    The mark of the pod is still applied: another database is not another release.
    """
    if real is None or wanted["kind"] != "StatefulSet" or _mark(real) == _mark(wanted):
        return wanted
    template = {**wanted["spec"]["template"], "spec": _pod(real)}
    return _with_mark({**wanted, "spec": {**wanted["spec"], "template": template}}, _mark(real))


def version_of(workload: Document | None) -> str:
    """The tag of the image that the engine runs, `""` where there is none."""
    if workload is None:
        return ""
    image = str(_pod(workload)["containers"][0]["image"]).partition("@")[0]
    return image.rpartition("/")[2].partition(":")[2]


def next_of(workload: Document | None, wanted: Document) -> str:
    """Return the version that a restart would give, `""` if the pod already has the right release.

    A digest distinguishes two pods of the same version.
    """
    if workload is None or _mark(workload) == _mark(wanted) or covers(_pod(workload), _pod(wanted)):
        return ""
    version = version_of(wanted)
    return version if version and version != version_of(workload) else f"{version}+{_digest(wanted)[:6]}"


def _with_mark(workload: Document, mark: str) -> Document:
    metadata = workload["metadata"]
    marks = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != POD_MARK}
    return {**workload, "metadata": {**metadata, "annotations": {**marks, **({POD_MARK: mark} if mark else {})}}}


def _mark(workload: Document) -> str:
    return str((workload["metadata"].get("annotations") or {}).get(POD_MARK, ""))


def _digest(workload: Document) -> str:
    return hashlib.sha256(orjson.dumps(_pod(workload), option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def _pod(workload: Document) -> Document:
    pod: Document = workload["spec"]["template"]["spec"]
    return pod
