"""JSON schemas of Kubernetes' own kinds for kubeconform, from an API server's OpenAPI: nothing is fetched from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
LOCATION = "{{.Group}}-{{.ResourceAPIVersion}}-{{.ResourceKind}}.json"


def write_schemas(openapi: Mapping[str, Any], folder: Path) -> str:
    """One file a kind, strict: what a schema does not name is refused. Returns kubeconform's location of them."""
    definitions = {name: _strict(definition) for name, definition in openapi["definitions"].items()}
    (folder / "definitions.json").write_text(json.dumps({"definitions": definitions}))
    for name, definition in openapi["definitions"].items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            # kubeconform calls the group of core kinds v1.
            file = f"{kind['group'] or 'v1'}-{kind['version']}-{kind['kind'].lower()}.json"
            (folder / file).write_text(json.dumps({"$ref": f"definitions.json#/definitions/{name}"}))
    return f"{folder}/{LOCATION}"


def _strict(definition: Any) -> Any:
    """As JSON Schema has it: an int-or-string is either, other formats are Go's own, unknown fields are refused."""
    if isinstance(definition, list):
        return [_strict(each) for each in definition]
    if not isinstance(definition, dict):
        return definition
    if definition.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    strict = {key: _strict(value) for key, value in definition.items() if key != "format" or isinstance(value, dict)}
    if "properties" in definition and not definition.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict
