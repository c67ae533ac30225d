"""Manifests with one fault each, made from the good ones by the schemas of all kinds."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tenantry.kinds import core, crds
from tenantry.kinds.cel.rule import Path
from tenantry.kinds.structural import field_name

Schema = Mapping[str, Any]
WRONG: Mapping[str, Sequence[Any]] = {
    "string": (7, True, ["a"], {"a": "b"}),
    "integer": ("7", True, 1.5, [7], {"a": 7}),
    "boolean": ("true", 1, [True], {"a": True}),
    "array": ("a", 7, {"a": "b"}),
    "object": ("a", 7, ["a"]),
}
"""Values of another type, by the type that is declared."""
SERVED = ("apiVersion", "kind", "status")
"""Parts of a document that are not mutated by their schema: an API server drops a status, and routes by the others."""


class Mutation(NamedTuple):
    """A manifest with a fault. name: the fault and the field."""

    name: str
    document: dict[str, Any]


SCHEMAS: Mapping[str, Schema] = {
    kind.KIND: core.with_metadata(crds.object_schema(kind), namespaced=kind.NAMESPACED) for kind in crds.KINDS
}


def mutations(good: Mapping[str, Any]) -> Iterator[Mutation]:
    """Every fault of every field whose parent the manifest has."""
    schema = SCHEMAS[good["kind"]]
    yield _set("unknown", good, ("colour",), "red")
    yield _set("another version", good, ("apiVersion",), "tenantry.dev/v9")
    yield _set("another group", good, ("apiVersion",), "example.com/v1")
    yield _set("a number", good, ("apiVersion",), 7)
    yield from (_removed(good, (name,)) for name in ("apiVersion", "spec") if name in good)
    yield from _of_object(good, schema["properties"]["spec"], ("spec",))
    yield from _of_field(good, schema["properties"]["metadata"]["properties"]["name"], ("metadata", "name"))
    yield from (_set(f"a {type(value).__name__}", good, ("spec",), value) for value in WRONG["object"])


def _of_object(good: Mapping[str, Any], schema: Schema, path: Path) -> Iterator[Mutation]:
    if not isinstance(_at(good, path), Mapping):
        return
    yield _set("unknown", good, (*path, "colour"), "red")
    for name in schema.get("required", ()):
        yield _removed(good, (*path, name))
    for name, each in schema.get("properties", {}).items():
        yield from _of_field(good, each, (*path, name))


def _of_field(good: Mapping[str, Any], schema: Schema, path: Path) -> Iterator[Mutation]:
    yield from (_set(f"a {type(value).__name__}", good, path, value) for value in WRONG[schema["type"]])
    yield from (_set(fault, good, path, value) for fault, value in _out_of_range(schema, _at(good, path)))
    if schema["type"] == "object":
        yield from _of_object(good, schema, path)
    items = _at(good, path)
    if schema["type"] == "array" and isinstance(items, list) and items:
        yield from _of_field(good, schema["items"], (*path, 0))


def _out_of_range(schema: Schema, held: Any) -> Iterator[tuple[str, Any]]:
    if "enum" in schema:
        yield "none of its values", "Colourful"
    if schema.get("minLength"):
        yield "empty", ""
    if "maxLength" in schema and schema["maxLength"] < 5_000:
        yield "too long", "a" * (schema["maxLength"] + 1)
    if "pattern" in schema:
        yield "a character that its pattern has not", "\0" * max(1, schema.get("minLength", 1))
    if "minimum" in schema:
        yield "too small", schema["minimum"] - 1
    if "maximum" in schema:
        yield "too large", schema["maximum"] + 1
    if "maxItems" in schema and isinstance(held, list) and held and schema["maxItems"] <= 100:
        yield "too many", [held[0]] * (schema["maxItems"] + 1)


def _at(document: Any, path: Path) -> Any:
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _set(fault: str, good: Mapping[str, Any], path: Path, value: Any) -> Mutation:
    document = copy.deepcopy(dict(good))
    _at(document, path[:-1])[path[-1]] = value
    return Mutation(f"{good['kind']}: {field_name(path)} is {fault}", document)


def _removed(good: Mapping[str, Any], path: Path) -> Mutation:
    document = copy.deepcopy(dict(good))
    _at(document, path[:-1]).pop(path[-1], None)
    return Mutation(f"{good['kind']}: {field_name(path)} is missing", document)
