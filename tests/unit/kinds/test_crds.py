"""The generated definitions are structural, bounded, and say what kubectl shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tenantry.kinds import crds
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import DECLARED

EVERY_KIND = pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.KIND)
ALLOWED = {
    "type", "description", "format", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems",
    "maxItems", "required", "properties", "items", "additionalProperties", "x-kubernetes-validations", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
}  # fmt: skip


def _schemas(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from _schemas(each, f"{path}.{name}")
    if "items" in schema:
        yield from _schemas(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schemas(schema["additionalProperties"], f"{path}{{}}")


def _version(kind: crds.Kind) -> dict[str, Any]:
    version: dict[str, Any] = crds.definition(kind)["spec"]["versions"][0]
    return version


@EVERY_KIND
def test_every_part_of_a_schema_has_a_type_and_nothing_that_a_structural_schema_cannot_say(kind: crds.Kind) -> None:
    for path, schema in _schemas(crds.object_schema(kind)):
        assert isinstance(schema.get("type"), str), path
        assert set(schema) <= ALLOWED, path


@EVERY_KIND
def test_every_declared_string_and_list_is_bounded(kind: crds.Kind) -> None:
    for path, schema in _schemas(crds.object_schema(kind)["properties"]["spec"], "spec"):
        if schema["type"] == "string":
            assert "maxLength" in schema or "enum" in schema or "format" in schema, f"{path}: give it max_length=..."
        if schema["type"] == "array":
            assert "maxItems" in schema, f"{path}: give it max_length=..."
        if schema["type"] == "integer":
            assert "maximum" in schema, f"{path}: give it an upper bound (le=...)"


@pytest.mark.parametrize("kind", [kind for kind in crds.KINDS if kind.KIND in DECLARED], ids=lambda kind: kind.KIND)
def test_no_declared_text_takes_a_nul(kind: crds.Kind) -> None:
    taken = [
        path
        for path, schema in _schemas(crds.object_schema(kind)["properties"]["spec"], "spec")
        if schema["type"] == "string" and "format" not in schema
        for text in ("\0", "a\0b", "ab\0")
        if jsonschema_rs.is_valid({**schema, "minLength": 0}, text)
    ]
    assert taken == []


@EVERY_KIND
@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_is_described_by_a_sentence(kind: crds.Kind, part: str) -> None:
    described = {path: each.get("description", "") for path, each in _schemas(crds.object_schema(kind)["properties"][part], part)}
    fields = {path: text for path, text in described.items() if not path.endswith("[]")}

    assert [path for path, text in fields.items() if not text.endswith((".", "?"))] == []


@EVERY_KIND
def test_only_the_status_as_a_whole_has_a_default(kind: crds.Kind) -> None:
    status = crds.object_schema(kind)["properties"]["status"]
    inner = [path for path, schema in _schemas(status) if path and "default" in schema]

    assert inner == []
    assert status.get("default") == ({"observedGeneration": -1} if kind is not Operation else None)


@EVERY_KIND
def test_conditions_are_a_map_by_their_type(kind: crds.Kind) -> None:
    conditions = crds.object_schema(kind)["properties"]["status"]["properties"]["conditions"]

    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    assert "type" in conditions["items"]["required"]


@EVERY_KIND
def test_the_table_begins_with_ready_and_reason_and_ends_with_the_age(kind: crds.Kind) -> None:
    columns = [column["name"] for column in _version(kind)["additionalPrinterColumns"]]

    assert columns[-1] == "Age"
    assert kind is Operation or columns[:2] == ["Ready", "Reason"]


def test_an_operation_is_born_with_its_status() -> None:
    assert "subresources" not in _version(Operation)
    assert _version(Environment)["subresources"] == {"status": {}}


def test_names_are_those_of_the_contract() -> None:
    names = {kind: document["spec"]["names"] for kind, document in crds.crds().items()}

    assert {kind: each["shortNames"][0] for kind, each in names.items()} == {kind.KIND: kind.SHORT for kind in crds.KINDS}
    assert {each["categories"][0] for each in names.values()} == {"tenantry"}


def test_names_of_objects_are_labels_of_40_characters_and_an_apps_is_two() -> None:
    longest = {
        kind.KIND: crds.object_schema(kind)["properties"]["metadata"]["properties"]["name"]["maxLength"] for kind in crds.KINDS
    }

    assert longest.pop("App") == 81
    assert set(longest.values()) == {40}


def test_defaults_made_by_factories_are_told() -> None:
    spec = crds.object_schema(Environment)["properties"]["spec"]

    assert spec["properties"]["engine"]["default"] == {}
    assert spec["properties"]["engine"]["properties"]["unmanaged"]["default"] == "Keep"
    assert "default" not in spec["properties"]["slug"]


def test_a_union_of_two_types_is_refused() -> None:
    with pytest.raises(ValueError, match="no structural schema"):
        crds._structural({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {})


@pytest.mark.slow
def test_files_are_the_same_each_time_and_read_back_as_they_were(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in crds.write(tmp_path / "a")]
    second = [path.read_bytes() for path in crds.write(tmp_path / "b")]

    assert first == second
    assert [yaml.safe_load(each) for each in first] == list(crds.crds().values())
