"""The file by which kube-state-metrics shows each object as `tenantry_resource_info`. `make crds` writes it into the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tenantry.kinds.registry import KINDS
from tenantry.model.resource import DRIFTED, GROUP, HOT, SUSPENDED, VERSION, Resource

FILE = Path(__file__).parents[2] / "charts" / "tenantry" / "files" / "state-metrics.yaml"
CONDITIONS = {"ready": "Ready", "stalled": "Stalled", "suspended": SUSPENDED, "drifted": DRIFTED, "hot": HOT}
"""The label of each condition."""
SHOWN = {"environment": "environment", "app": "app", "version": "version", "region": "region"}
"""Labels of fields of the spec, for kinds that have them; a name of another object or a version, never a free text."""


def _labels(kind: type[Resource[Any, Any]]) -> dict[str, list[str]]:
    """Return the path of each label. Flux names those of namespaces alike: Prometheus has its own label `namespace`."""
    spec = kind.model_fields["spec"].annotation
    fields = getattr(spec, "model_fields", {})
    labels = {"name": ["metadata", "name"], "exported_namespace": ["metadata", "namespace"]}
    if not kind.NAMESPACED:
        labels.pop("exported_namespace")
    labels |= {label: ["status", "conditions", f"[type={type_}]", "status"] for label, type_ in CONDITIONS.items()}
    labels["reason"] = ["status", "conditions", "[type=Ready]", "reason"]
    return labels | {label: ["spec", field] for label, field in SHOWN.items() if field in fields}


def _resource(kind: type[Resource[Any, Any]]) -> dict[str, Any]:
    metric = {
        "name": "resource_info",
        "help": "The state of an object of Tenantry.",
        "each": {"type": "Info", "info": {"labelsFromPath": _labels(kind)}},
    }
    named = {"group": GROUP, "version": VERSION, "kind": kind.KIND}
    return {"groupVersionKind": named, "metricNamePrefix": "tenantry", "metrics": [metric]}


def written() -> str:
    """Return the file: a resource for each kind that has passes."""
    body = {
        "kind": "CustomResourceStateMetrics",
        "spec": {"resources": [_resource(kind.type) for kind in KINDS.values()]},
    }
    head = "# Written by `make crds` from the registry of kinds: a configuration of kube-state-metrics.\n"
    return head + yaml.safe_dump(body, sort_keys=False, width=120)


def main() -> None:
    """Write the file."""
    FILE.write_text(written())


if __name__ == "__main__":
    main()
