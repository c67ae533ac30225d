"""Dashboards for Grafana, from lists of panels. `make crds` writes them into the chart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "charts" / "tenantry" / "files" / "dashboards"
WIDTH, HEIGHT = 8, 7
"""Of a panel, in Grafana's grid of 24 columns."""


class Panel(NamedTuple):
    """One diagram. expression: PromQL. legend: of each series, by its labels. unit: by Grafana's name of it."""

    title: str
    expression: str
    legend: str = ""
    unit: str = "short"


def _quantile(quantile: float, metric: str, by: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate({metric}_bucket[$__rate_interval])))"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def _most(metric: str, by: str) -> str:
    """Of the operator's replicas, each of which counts everything."""
    return f"max by ({by}) ({metric})"


CONTROL_PLANE = (
    Panel("Operators that hold the Lease", "sum(leader_election_master_status)"),
    Panel("Objects that wait for a pass", "sum by (controller) (workqueue_depth)", "{{controller}}"),
    Panel("Wait for a pass, p90", _quantile(0.9, "workqueue_queue_duration_seconds", "controller"), "{{controller}}", "s"),
    Panel("Passes per second", _rate("controller_runtime_reconcile_total", "result"), "{{result}}"),
    Panel(
        "Length of a pass, p99", _quantile(0.99, "controller_runtime_reconcile_time_seconds", "controller"), "{{controller}}", "s"
    ),
    Panel("Passes that run", "sum by (controller) (controller_runtime_active_workers)", "{{controller}}"),
    Panel("Passes that failed, per second", _rate("controller_runtime_reconcile_errors_total", "controller"), "{{controller}}"),
    Panel("Longest pass that runs", "max(workqueue_longest_running_processor_seconds)", unit="s"),
    Panel("Requests to the API server, per second", _rate("rest_client_requests_total", "method, code"), "{{method}} {{code}}"),
    Panel("REST requests per second", _rate("tenantry_requests_total", "code"), "{{code}}"),
    Panel("Time of REST requests, p99", _quantile(0.99, "tenantry_request_seconds", "method"), "{{method}}", "s"),
    Panel("Memory", "sum by (job) (process_resident_memory_bytes)", "{{job}}", "bytes"),
    Panel("Processor", _rate("process_cpu_seconds_total", "job"), "{{job}}"),
    Panel("Open files", "max by (job) (process_open_fds / process_max_fds)", "{{job}}", "percentunit"),
)
FLEET = (
    Panel("Objects by state", "sum by (state) (max by (kind, state, by) (tenantry_ready))", "{{state}}"),
    Panel("Objects that need an operator", 'sum(max by (kind) (tenantry_ready{state="needs-you",by="Operator"}))'),
    Panel("Objects that need a user", 'sum(max by (kind) (tenantry_ready{state="needs-you",by="User"}))'),
    Panel("Engines that do not run", _most("tenantry_engines_not_running", "status"), "{{status}}"),
    Panel("Declared to Ready, p50", _quantile(0.5, "tenantry_declared_to_ready_seconds", "kind"), "{{kind}}", "s"),
    Panel("Declared to Ready, p99", _quantile(0.99, "tenantry_declared_to_ready_seconds", "kind"), "{{kind}}", "s"),
    Panel("Open Operations", _most("tenantry_operations_open", "action"), "{{action}}"),
    Panel("Oldest open Operation", _most("tenantry_operation_open_seconds_max", "action"), "{{action}}", "s"),
    Panel(
        "Operations that ended, per second", _rate("tenantry_operation_seconds_count", "action, result"), "{{action}} {{result}}"
    ),
    Panel("Duration of Operations, p99", _quantile(0.99, "tenantry_operation_seconds", "action"), "{{action}}", "s"),
    Panel("Oldest deletion", "max(tenantry_deletion_seconds_max)", unit="s"),
    Panel("Objects that differ from their declaration", "max by (policy) (tenantry_drift)", "{{policy}}"),
    Panel("Source that was read longest ago", "max(tenantry_source_age_seconds)", unit="s"),
    Panel("Deletions that wait for an approval", "max(tenantry_source_held_back)"),
    Panel("Greatest share of a quota", _most("tenantry_quota_used_ratio", "quota"), "{{quota}}", "percentunit"),
    Panel("Requests refused at a quota, per second", _rate("tenantry_quota_refused_total", "quota"), "{{quota}}"),
)
_OBJECTS = 'tenantry_resource_info{exported_namespace=~"$namespace"'
"""The series of kube-state-metrics: one for each object."""
TENANT = (
    Panel("Environments by readiness", f'count by (ready) ({_OBJECTS},customresource_kind="Environment"}})', "{{ready}}"),
    Panel("Objects by kind", f"count by (customresource_kind) ({_OBJECTS}}})", "{{customresource_kind}}"),
    Panel(
        "Objects that are not Ready, by reason",
        f'count by (customresource_kind, reason) ({_OBJECTS},ready!="True"}}) or vector(0)',
        "{{customresource_kind}} {{reason}}",
    ),
    Panel("Objects that are suspended", f'count({_OBJECTS},suspended="True"}}) or vector(0)'),
    Panel("Objects that differ from their declaration", f'count({_OBJECTS},drifted="True"}}) or vector(0)'),
    Panel("Apps by version", f'count by (app, version) ({_OBJECTS},customresource_kind="App"}})', "{{app}} {{version}}"),
    Panel("Greatest share of a quota", _most("tenantry_quota_used_ratio", "quota"), "{{quota}}", "percentunit"),
    Panel("Requests refused at a quota, per second", _rate("tenantry_quota_refused_total", "quota"), "{{quota}}"),
)
ENGINE = (
    Panel("Requests per second, by work", _rate("tenantry_engine_requests_total", "operation"), "{{operation}}"),
    Panel("Requests per second, by code", _rate("tenantry_engine_requests_total", "code"), "{{code}}"),
    Panel(
        "Share of errors of the engine",
        'sum(rate(tenantry_engine_requests_total{code="5xx"}[$__rate_interval]))'
        " / sum(rate(tenantry_engine_requests_total[$__rate_interval]))",
        unit="percentunit",
    ),
    Panel(
        "Time until the answer begins, p50", _quantile(0.5, "tenantry_engine_request_seconds", "operation"), "{{operation}}", "s"
    ),
    Panel(
        "Time until the answer begins, p99", _quantile(0.99, "tenantry_engine_request_seconds", "operation"), "{{operation}}", "s"
    ),
    Panel("Requests that an engine answered, by engine", "sum by (instance) (tenantry_engine_requests_total)", "{{instance}}"),
    Panel("Bytes that engines hold", "sum by (of) (tenantry_engine_bytes)", "{{of}}", "bytes"),
    Panel("Engines that do not run", _most("tenantry_engines_not_running", "status"), "{{status}}"),
    Panel(
        "Room on volumes of engines",
        'min(kubelet_volume_stats_available_bytes{persistentvolumeclaim="engine"} / kubelet_volume_stats_capacity_bytes)',
        unit="percentunit",
    ),
)


class Board(NamedTuple):
    """One dashboard. namespaces: it asks for the namespaces that it shows."""

    title: str
    panels: Sequence[Panel]
    namespaces: bool = False


BOARDS: dict[str, Board] = {
    "control-plane": Board("Tenantry: control plane", CONTROL_PLANE),
    "fleet": Board("Tenantry: fleet", FLEET),
    "tenant": Board("Tenantry: tenant", TENANT, namespaces=True),
    "engine": Board("Tenantry: engines", ENGINE),
}
NAMESPACES = "label_values(tenantry_resource_info, exported_namespace)"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def board(name: str) -> str:
    """Return the JSON of a dashboard. It asks for the data source and needs no plugin."""
    title, panels, namespaces = BOARDS[name]
    chosen: list[dict[str, Any]] = [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
    if namespaces:
        asked = {"name": "namespace", "label": "Namespace", "type": "query", "query": NAMESPACES, "datasource": SOURCE}
        chosen.append(asked | {"includeAll": True, "allValue": ".*", "multi": True, "refresh": 2})
    body = {
        "uid": f"tenantry-{name}",
        "title": title,
        "tags": ["tenantry"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": chosen},
        "panels": list(_panels(panels)),
    }
    return json.dumps(body, indent=1) + "\n"


def _panels(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(panels):
        row, column = divmod(number, 24 // WIDTH)
        target = {"refId": "A", "datasource": SOURCE, "expr": panel.expression, "legendFormat": panel.legend or panel.title}
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": SOURCE,
            "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [target],
        }


def main() -> None:
    """Write all dashboards."""
    FOLDER.mkdir(exist_ok=True)
    for name in BOARDS:
        (FOLDER / f"{name}.json").write_text(board(name))


if __name__ == "__main__":
    main()
