"""Kubernetes' own rules for metadata, Namespace and Secret, as far as Tenantry's declarations hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.model.fields import LABEL_PATTERN
from tenantry.model.wording import worded

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_SUBDOMAIN = worded(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "must be lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part",
)
_QUALIFIED: Schema = {
    "pattern": worded(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        "must be a name such as team, or a host and a name, such as example.com/team",
    ),
    "maxLength": 317,
}
_LABEL_VALUE: Schema = {
    "type": "string",
    "maxLength": 63,
    "pattern": worded(
        r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends, or empty",
    ),
}
_BASE64 = worded(
    r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "must be base64: write clear text under stringData instead"
)
_SECRET_KEY: Schema = {
    "maxLength": 253,
    "pattern": worded(r"^[-._a-zA-Z0-9]+$", "must be letters, digits, '-', '_' and '.', such as password"),
}
_OWNER: Schema = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _STRING,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}
_METADATA: Mapping[str, Schema] = {
    "name": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": _SUBDOMAIN},
    "generateName": _STRING,
    "namespace": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": LABEL_PATTERN},
    "labels": {"type": "object", "propertyNames": _QUALIFIED, "additionalProperties": _LABEL_VALUE},
    "annotations": {"type": "object", "propertyNames": _QUALIFIED, "additionalProperties": _STRING},
    "finalizers": {"type": "array", "items": {"type": "string", "pattern": _QUALIFIED["pattern"]}},
    "ownerReferences": {"type": "array", "items": _OWNER},
    "uid": _STRING,
    "resourceVersion": _STRING,
    "selfLink": _STRING,
    "generation": {"type": "integer"},
    "creationTimestamp": _TIME,
    "deletionTimestamp": _TIME,
    "deletionGracePeriodSeconds": {"type": "integer"},
    "managedFields": {"type": "array", "items": {"type": "object"}},
}
NAMESPACE: Schema = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "kind": _STRING,
        "metadata": {"properties": {"name": {"maxLength": 63, "pattern": LABEL_PATTERN}}},
        "spec": {"type": "object", "properties": {"finalizers": {"type": "array", "items": _STRING}}},
        "status": {
            "type": "object",
            "properties": {"phase": _STRING, "conditions": {"type": "array", "items": {"type": "object"}}},
        },
    },
}
SECRET: Schema = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "kind": _STRING,
        "metadata": {"properties": {}},
        "type": {"type": "string", "default": "Opaque", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "is immutable"},
        ]},
        "immutable": {"type": "boolean"},
        "data": {
            "type": "object",
            "propertyNames": _SECRET_KEY,
            "additionalProperties": {"type": "string", "pattern": _BASE64},
        },
        "stringData": {"type": "object", "propertyNames": _SECRET_KEY, "additionalProperties": _STRING},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(oldSelf.immutable) || !oldSelf.immutable || (has(self.immutable) && self.immutable"
            " && has(self.data) == has(oldSelf.data) && (!has(self.data) || self.data == oldSelf.data))",
            "message": "is immutable when `immutable` is set",
            "fieldPath": ".data",
        },
    ],
}  # fmt: skip


def with_metadata(schema: Mapping[str, Any], *, namespaced: bool) -> Schema:
    """The schema with all of ObjectMeta in it, and with metadata required; its own rules of metadata.name stay."""
    own = schema["properties"]["metadata"]["properties"]
    metadata = {
        "type": "object",
        "required": ["name", "namespace"] if namespaced else ["name"],
        "properties": {**_METADATA, "name": {**_METADATA["name"], **own.get("name", {})}},
    }
    return {
        **schema,
        "required": ["metadata", *schema.get("required", ())],
        "properties": {**schema["properties"], "metadata": metadata},
    }
