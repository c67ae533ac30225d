"""Objects of each kind with markup in every text that somebody may declare or the platform report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tenantry.console.reading.rights import TYPES
from tenantry.kinds import crds
from tenantry.model.resource import Resource

CANARIES = ('"><script id=canary>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}', "'><b id=canary>", "<i id=canary>")
MANIFESTS = Path(__file__).parents[2] / "contract" / "manifests" / "good"
TIME = "2026-11-23T08:00:00Z"
STATUS = {
    "observedGeneration": 1,
    "conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "M", "lastTransitionTime": TIME}],
    "deletion": {"blockers": [{"object": "App/a/b", "reason": "R", "since": TIME, "resolve": "wait"}]},
}
OPERATION = {
    "status": "COMPLETED",
    "result": "FAILURE",
    "code": "C",
    "message": "M",
    "startedOn": TIME,
    "endsOn": TIME,
    "logs": "L",
}
Path_ = tuple[str | int, ...]


def base_of(kind: str) -> dict[str, Any]:
    """The fullest of the good manifests of a kind, as it is stored."""
    declared = [one for path in MANIFESTS.glob("*.yaml") for one in yaml.safe_load_all(path.read_text()) if one["kind"] == kind]
    document: dict[str, Any] = max(declared, key=lambda one: len(str(one)))
    document["metadata"] |= {"uid": "uid", "resourceVersion": "1", "generation": 1, "creationTimestamp": TIME}
    document["metadata"].setdefault("annotations", {})["tenantry.dev/source-file"] = "a.yaml:1"
    document["metadata"].setdefault("labels", {})["tenantry.dev/source"] = "default"
    return {**document, "spec": document.get("spec") or {}, "status": OPERATION if kind == "Operation" else STATUS}


def texts_of(schema: Mapping[str, Any], at: Path_ = ()) -> Iterator[Path_]:
    """The paths of all texts that a schema allows; one of each list and mapping."""
    match schema:
        case {"type": "object", "properties": properties}:
            for name, inner in properties.items():
                yield from texts_of(inner, (*at, name))
        case {"type": "object", "additionalProperties": dict(more)}:
            yield from texts_of(more, (*at, "key"))
        case {"type": "array", "items": inner}:
            yield from texts_of(inner, (*at, 0))
        case {"type": "string"}:
            yield at


def with_text(document: dict[str, Any], path: Path_, text: str) -> dict[str, Any]:
    """The document with a text at the path, whose parents are made where they are absent."""
    changed = deepcopy(document)
    value: Any = changed
    for step, following in pairwise(path):
        empty: Any = [] if following == 0 else {}
        if isinstance(step, int):
            value.extend([empty] * (step + 1 - len(value)))
        elif step not in value or value[step] is None:
            value[step] = empty
        value = value[step]
    if isinstance(path[-1], int):
        value[:] = [text]
    else:
        value[path[-1]] = text
    return changed


def accepted(type_: type[Resource[Any, Any]], document: dict[str, Any]) -> bool:
    try:
        type_.model_validate(document)
    except ValidationError:
        return False
    return True


def attacked(kind: str) -> tuple[dict[str, Any], list[Path_]]:
    """A document with a canary in every text that somebody may write or the platform report, and the paths of them."""
    type_, document = TYPES[kind], base_of(kind)
    schema = crds.object_schema(type_)
    paths = [(part, *path) for part in ("spec", "status") for path in texts_of(schema["properties"][part])]
    paths += [("metadata", part, name) for part in ("annotations", "labels") for name in document["metadata"][part]]
    taken = []
    for path in paths:
        for canary in CANARIES:
            changed = with_text(document, path, canary)
            if accepted(type_, changed):
                document = changed
                taken.append(path)
                break
    return document, taken
