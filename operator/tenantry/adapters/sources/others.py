"""Documents of other programs in a source's files: those that are passed over, and those that have to be built first. Pure."""

from __future__ import annotations

import re
from typing import Any

from tenantry.kinds.registry import DECLARED
from tenantry.model.resource import GROUP
from tenantry.model.wording import nearest

_CORE = "v1"
"""The API version of Kubernetes itself, of which a source declares Namespaces and Secrets."""
_VERSION = re.compile(r"([a-z0-9.-]+)/v[0-9][a-z0-9]*")
"""A version of an API group. What is none, such as an encrypted one, is nobody's object and stays a problem."""
_KUSTOMIZE = "kustomize.config.k8s.io"
_WAYS_OUT = "build it in CI and declare the result, or leave the file out with a line in .tenantryignore or in spec.ignore"


def is_of_others(value: Any) -> bool:
    """Return True for an object of an API group that Tenantry does not read. A misspelt group of ours is none of those."""
    if not isinstance(value, dict):
        return False
    version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str) or not kind:
        return False
    if version == _CORE:
        return kind not in DECLARED
    found = _VERSION.fullmatch(version)
    return found is not None and found[1] != GROUP and not nearest(found[1], (GROUP,))


def unbuilt(file: str, value: Any) -> str:
    """Return the reason to refuse the input of Kustomize and Helm, from which they make manifests; `""` for anything else."""
    if not isinstance(value, dict):
        return ""
    name, version = file.rpartition("/")[2], str(value.get("apiVersion", ""))
    if version.startswith(f"{_KUSTOMIZE}/") or (not version and name in ("kustomization.yaml", "kustomization.yml")):
        return f"is the input of Kustomize, which Tenantry does not run: {_WAYS_OUT}"
    if name == "Chart.yaml" and "kind" not in value:
        return f"is a Helm chart, which Tenantry does not render: {_WAYS_OUT}"
    return ""
