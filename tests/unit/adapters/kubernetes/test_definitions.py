"""A release works with its own definitions only: others are older or newer, and that is said with the fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenantry.adapters.kubernetes.definitions import difference, fields
from tenantry.kinds import crds
from tenantry.model.verdicts import Transient


def served() -> dict[str, Any]:
    return {kind.KIND: copy.deepcopy(crds.object_schema(kind)) for kind in crds.KINDS}


def paths(schema: Any, above: str = "") -> set[str]:
    below = schema.get("items") or schema.get("additionalProperties") or schema
    found = set()
    for name, each in below.get("properties", {}).items():
        found |= {f"{above}{name}", *paths(each, f"{above}{name}.")}
    return found


def engine_of(schemas: Any) -> Any:
    return schemas["Environment"]["properties"]["spec"]["properties"]["engine"]["properties"]


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.KIND)
def test_a_model_has_the_fields_of_its_schema(kind: Any) -> None:
    assert fields(kind) == {each for each in paths(crds.object_schema(kind)) if each.partition(".")[0] in ("spec", "status")}


def told(schemas: Any) -> str:
    found = difference(schemas)
    assert isinstance(found, Transient)
    assert found.reason == "DefinitionsDiffer"
    return found.message


def test_the_definitions_of_this_release_are_taken() -> None:
    assert difference(served()) is None


def test_a_field_that_is_lacking_makes_them_older() -> None:
    schemas = served()
    del engine_of(schemas)["pool"]
    assert "of an older release, without Environment.spec.engine.pool; apply those" in told(schemas)


def test_a_kind_that_is_lacking_makes_them_older() -> None:
    schemas = served()
    del schemas["Source"]
    assert "without Source.spec, " in told(schemas)
    assert " more; apply those" in told(schemas)


def test_a_field_that_is_unknown_makes_them_newer_whatever_is_lacking() -> None:
    schemas = served()
    engine_of(schemas)["later"] = engine_of(schemas).pop("pool")
    assert "of a newer release: Environment.spec.engine.later; run that release" in told(schemas)


def test_a_cluster_without_definitions_says_so() -> None:
    assert "has no definitions" in told({})
