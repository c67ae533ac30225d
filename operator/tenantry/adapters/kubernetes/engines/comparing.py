"""Objects of an engine compared with the form in which they are applied. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.adapters.kubernetes.engines.workload import is_scaled
from tenantry.model.resource import Document

_WHOLE = frozenset({"data", "hard", "matchLabels", "selector"})
"""Mappings in which an entry more is another meaning."""


def covers(real: Any, wanted: Any) -> bool:
    """Return True if every wanted value is present. Values that the server added, or others in metadata, do not matter."""
    if real == wanted:  # most parts are, and no comparison is faster
        return True
    if not wanted and isinstance(wanted, Mapping | list):
        return not real
    if isinstance(wanted, Mapping):
        if not isinstance(real, Mapping):
            return False
        return all(
            covers(real.get(key), value) and not (key in _WHOLE and set(real[key]) - set(value)) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        same = isinstance(real, list | tuple) and len(real) == len(wanted)
        return same and all(covers(one, other) for one, other in zip(real, wanted, strict=True))
    return False


def difference(real: Any, wanted: Any) -> str:
    """Return the path of the first wanted value that is missing, such as `spec.replicas`; `""` if all are present."""
    if not wanted or covers(real, wanted):
        return ""
    if isinstance(wanted, Mapping) and isinstance(real, Mapping):
        # One key at a time: a selector with a key too many is covered but for its whole.
        key, value = next((key, value) for key, value in wanted.items() if not covers({key: real.get(key)}, {key: value}))
        below = difference(real.get(key), value)
        return f"{key}{'.' if below and not below.startswith('[') else ''}{below}"
    if isinstance(wanted, list | tuple) and isinstance(real, list | tuple) and len(real) == len(wanted):
        number = next(number for number, value in enumerate(wanted) if not covers(real[number], value))
        below = difference(real[number], wanted[number])
        return f"[{number}]{below and f'.{below}'}"
    return ""


def alteration(real: Document | None, wanted: Document) -> str:
    """Describe how an object differs from its applied form, without the values of a Secret."""
    if real is None:
        return f"its {wanted['kind']} does not exist"
    where = difference(real, settled(wanted, real)) if wanted["kind"] != "Secret" else ""
    return f"its {wanted['kind']} was changed{where and f' at {where}'}"


def settled(wanted: Document, real: Document) -> Document:
    """Return the wanted form of an existing object: a claim keeps its volume and its storage class, and a workload with an
    autoscaler its number of pods."""
    if wanted["kind"] == "StatefulSet":
        return _with_present_count(wanted, real)
    if wanted["kind"] != "PersistentVolumeClaim":
        return wanted
    # Also if none is wanted now: server-side apply removes each field that we named before and no longer name.
    held = {key: real["spec"][key] for key in ("storageClassName", "volumeName") if key in real.get("spec", {})}
    return {**wanted, "spec": {**wanted["spec"], **held}}


def _with_present_count(wanted: Document, real: Document) -> Document:
    """An autoscaler leaves a workload without any pod alone: that one begins again with the fewest."""
    present = real.get("spec", {}).get("replicas")
    if not present or present == wanted["spec"].get("replicas") or not is_scaled(wanted):
        return wanted
    return {**wanted, "spec": {**wanted["spec"], "replicas": present}}
