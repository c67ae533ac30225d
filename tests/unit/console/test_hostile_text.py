"""Markup in any declared or reported text of any kind stays text on every page that shows the object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from pydantic import ValidationError

from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.pages import rendered
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.console.views.actions import ActionPlan, confirmation
from tenantry.kinds import crds
from tenantry.model.resource import Resource, parse_time
from tenantry.runtime.cache import Cache
from tests.scenario.console.console_world import Parsed

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
        case {"type": "object", "additionalProperties": {**inner}}:
            yield from texts_of(inner, (*at, "key"))
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


async def pages(document: dict[str, Any], type_: type[Resource[Any, Any]], log: str) -> list[str]:
    cache = Cache(TYPES)
    cache.absorb(document)

    async def read(id_: str) -> str:
        return log

    facade = SimpleNamespace(writers=(), archives=None, logs=SimpleNamespace(read=read), now=lambda: parse_time(TIME))
    screens = Screens(cast(FacadeContext, SimpleNamespace(cache=cache, facade=facade)))
    shown = [await screens.show(Rights(True), path, {}) for path in ("", type_.PLURAL, f"{type_.PLURAL}/uid")]
    return [screen.content for screen in shown]


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


@pytest.mark.parametrize("kind", TYPES)
async def test_markup_in_any_text_of_any_kind_stays_text(kind: str) -> None:
    document, taken = attacked(kind)
    for content in await pages(document, TYPES[kind], CANARIES[0]):
        parsed = Parsed(content)
        assert "canary" not in {attributes.get("id") for _, attributes in parsed.tags}
        assert {"script", "img", "b", "i"}.isdisjoint(tag for tag, _ in parsed.tags)
        assert not [1 for _, attributes in parsed.tags if any(name.startswith("on") for name in attributes)]
        assert "49" not in parsed.text
        hidden = [str(attributes["href"]) for _, attributes in parsed.tags if attributes.get("href")]
        assert all(link.startswith("/console/") for link in hidden), hidden
    assert len(taken) >= 8
    assert parsed.text.count("<script id=canary>") + parsed.text.count("<b id=canary>") >= len(taken)


def test_markup_in_a_plan_and_in_a_refusal_stays_text() -> None:
    region = TYPES["Region"].model_validate(base_of("Region"))
    for plan in (ActionPlan((CANARIES[0], "two"), CANARIES[0]), ActionPlan(refusal=CANARIES[0])):
        form = {"name": CANARIES[0], "lines": f"{CANARIES[0]} before"}
        values = {**confirmation(region, "delete", plan, form, CANARIES[0]), "csrf": "token", "help": "/docs/"}
        parsed = Parsed(rendered("confirm.html", values))
        assert {"script", "img"}.isdisjoint(tag for tag, _ in parsed.tags)
        sent = [attributes["value"] for _, attributes in parsed.tags if attributes.get("name") == "lines"]
        assert sent == ([f"{CANARIES[0]}\ntwo"] if plan.lines else [])
