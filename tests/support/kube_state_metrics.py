"""A stand-in for kube-state-metrics: makes series of objects by the chart's configuration, of the type Info with paths.

It follows the rules of its page on custom resource state metrics: `[type=Ready]` chooses from a list, and a path that
leads nowhere makes no label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from tests.docs.state_metrics import FILE

RESOURCES: Mapping[str, Mapping[str, Any]] = {
    each["groupVersionKind"]["kind"]: each for each in yaml.safe_load(FILE.read_text())["spec"]["resources"]
}
_CHOICE = re.compile(r"\[(\w+)=(\w+)\]")


def exposed(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the series of these objects as Prometheus reads them."""
    return "".join(line for each in documents for line in _lines(each))


def _lines(document: Mapping[str, Any]) -> Iterable[str]:
    resource = RESOURCES[document["kind"]]
    for metric in resource["metrics"]:
        paths = metric["each"]["info"]["labelsFromPath"]
        values = {label: _found(document, path) for label, path in paths.items()}
        labels = {"customresource_kind": document["kind"]} | {label: str(value) for label, value in values.items() if value}
        told = ",".join(f'{label}="{value}"' for label, value in labels.items())
        yield f"{resource['metricNamePrefix']}_{metric['name']}{{{told}}} 1\n"


def _found(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        if choice := _CHOICE.fullmatch(step):
            value = next((each for each in value or () if each.get(choice[1]) == choice[2]), None)
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value
