"""The administrator's settings for the pods of all engines: their sizes and additions. Pure.

The chart writes it as `engines.json`, beside an optional `ca.crt`. Its keys are {"sizes": {NAME: {"requests", "limits"}},
"env", "volumes", "volumeMounts", "metrics", "logFormat"}. Three of them have the form of a pod; metrics is true or false,
logFormat json or text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import urlsplit

from tenantry.model.facts import EngineRef
from tenantry.model.resource import GROUP
from tenantry.model.verdicts import Invalid, Problem

Sizes = Mapping[str, Mapping[str, Mapping[str, str]]]
SIZES: Sizes = {
    "small": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
    "medium": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    "large": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}},
}
DEFAULT_SIZE = "small"
CA_KEY = "ca.crt"
CA_ANNOTATION = f"{GROUP}/ca"
"""On the pod, so that an engine starts anew when it is to trust others."""
METRICS_PORT = 8082
METRICS_LABEL = f"{GROUP}/metrics"
"""On a namespace whose pods may read the numbers of all engines: that of Prometheus."""
COLLECTORS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_BINARY = ("Mi", "Gi", "Ti", "Pi")
USER = 65534
RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The securityContext of a pod and of its container, as Pod Security asks for in a `restricted` namespace."""
CORE = 1000
"""Millicores that a process of Python uses by itself: threads wait for each other."""
SETTLES_S, STEP_S = 300, 60
"""Seconds of less load before an autoscaler takes pods away, and between two of its steps."""


@dataclass(frozen=True)
class EnginePods:
    """ca_bundle: the certificate authorities that engines trust, as PEM; `""`: those of the image. metrics: do they serve any?"""

    sizes: Sizes = field(default_factory=lambda: SIZES)
    env: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    ca_bundle: str = ""
    metrics: bool = False
    log_format: str = "json"

    def resources(self, size: str) -> dict[str, dict[str, str]]:
        """Requests and limits of a size, `""` for the default."""
        return {key: dict(value) for key, value in self.sizes[size or DEFAULT_SIZE].items()}

    def cpu_of(self, size: str, percent: int) -> str:
        """Return that part of the CPU that a pod of a size can use, as a quantity: its limit, and one core at most.

        Not of its request: that of a small engine is for an idle one, and any load is many times as much.
        """
        limit = self.resources(size).get("limits", {}).get("cpu")
        return _cpu(f"{max(1, min(CORE, _millis(limit) if limit else CORE) * percent // 100)}m")

    def variables(self, folder: str) -> list[dict[str, Any]]:
        """Environment variables. folder: where the file of the certificate authorities is mounted."""
        trust = [{"name": "SSL_CERT_FILE", "value": f"{folder}/{CA_KEY}"}] if self.ca_bundle else []
        metrics = [{"name": "TENANTRY_METRICS", "value": f"0.0.0.0:{METRICS_PORT}"}] if self.metrics else []
        return [*trust, *metrics, *map(dict, self.env)]

    @property
    def ports(self) -> list[dict[str, Any]]:
        """Return the ports of the container besides the engine's own."""
        return [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}] if self.metrics else []

    @property
    def ingress(self) -> list[dict[str, Any]]:
        """Return the rules of the NetworkPolicy for those ports: no tenant's pod, and no ingress controller, reaches them."""
        scraping = [{"namespaceSelector": {"matchLabels": {METRICS_LABEL: "true"}}}]
        return [{"from": scraping, "ports": [{"port": METRICS_PORT, "protocol": "TCP"}]}] if self.metrics else []

    @property
    def collector_ports(self) -> tuple[int, ...]:
        """Return the ports at which engines reach the collectors of traces that their environment names."""
        named = (str(each.get("value", "")) for each in self.env if each.get("name") in COLLECTORS)
        return tuple(port for port in map(_port_of, named) if port)

    @property
    def annotations(self) -> dict[str, str]:
        return {CA_ANNOTATION: sha256(self.ca_bundle.encode()).hexdigest()[:16]} if self.ca_bundle else {}

    @property
    def files(self) -> dict[str, str]:
        """Return the files of the engine's ConfigMap besides its keys."""
        return {CA_KEY: self.ca_bundle} if self.ca_bundle else {}


def parse_engine_pods(text: str, ca_bundle: str = "") -> EnginePods:
    """Raises Invalid."""
    try:
        body = json.loads(text)
        sizes = {**SIZES, **{name: _size(name, size) for name, size in body.get("sizes", {}).items()}}
        env, volumes, mounts = (tuple(body.get(key, ())) for key in ("env", "volumes", "volumeMounts"))
        return EnginePods(sizes, env, volumes, mounts, ca_bundle, body.get("metrics") is True, str(body.get("logFormat", "json")))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid((Problem("engines", f"is not what the chart writes: {error}"),), by="Operator") from error


def managed_names(ref: EngineRef) -> dict[str, str]:
    """Return the settings that say whose an engine is, without empty ones: the API server would leave those out."""
    names = {"UID": ref.id, "NAMESPACE": ref.namespace, "NAME": ref.name, "TENANT": ref.tenant}
    return {name: value for name, value in names.items() if value}


def _size(name: str, size: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the settings of a size, merged over its defaults."""
    default, found = SIZES.get(name, {}), {}
    for part in ("requests", "limits"):
        given = {
            what: _quantity(f"engines.sizes.{name}.{part}.{what}", what, str(value)) for what, value in size.get(part, {}).items()
        }
        if quantities := {**default.get(part, {}), **given}:
            found[part] = quantities
    return found


def _quantity(where: str, what: str, text: str) -> str:
    """The quantity as the API server writes it, so that what was applied is not taken for changed. Raises Invalid."""
    try:
        return _cpu(text) if what == "cpu" else _memory(text)
    except (ValueError, InvalidOperation):
        unit = "such as 10m or 1.5" if what == "cpu" else "in Mi or Gi, such as 160Mi"
        raise Invalid((Problem(where, f"{text!r} must be a quantity {unit}"),), by="Operator") from None


def _cpu(text: str) -> str:
    millis = _millis(text)
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def _millis(text: str) -> int:
    exact = Decimal(text[:-1]) if text.endswith("m") else Decimal(text) * 1000
    millis = int(exact)
    if millis != exact or millis < 0:
        raise ValueError(text)
    return millis


def _memory(text: str) -> str:
    number, unit = int(text[:-2]), _BINARY.index(text[-2:])
    if number < 0:
        raise ValueError(text)
    while number and number % 1024 == 0 and unit < len(_BINARY) - 1:
        number, unit = number // 1024, unit + 1
    return f"{number}{_BINARY[unit]}" if number else "0"


class Network(Protocol):
    """The host's settings for the network of engines."""

    @property
    def http(self) -> bool: ...
    @property
    def networks(self) -> Sequence[str]: ...
    @property
    def proxy(self) -> str: ...
    @property
    def proxies(self) -> Sequence[str]: ...
    @property
    def origins(self) -> Sequence[str]: ...


def ports_out(given: Network, *also: int) -> tuple[int, ...]:
    """The ports at which engines reach servers anywhere: a NetworkPolicy knows no name of a proxy."""
    ports = [443, 5432, *((80,) if given.http else ())]
    if given.proxy:
        ports.append(_port_of(given.proxy))
    return tuple(dict.fromkeys((*ports, *also)))


def _port_of(url: str) -> int:
    """Return the port of a URL; 0 for any other text."""
    try:
        parts = urlsplit(url)
        return parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    except ValueError:
        return 0


def network_variables(given: Network) -> list[dict[str, str]]:
    """Only what differs from the engine's own defaults: an engine whose environment changes starts anew."""
    values = {
        "OUTBOUND__HTTP": "true" if given.http else "",
        "OUTBOUND__NETWORKS": ",".join(given.networks),
        "OUTBOUND__PROXY": given.proxy,
        "HTTP__PROXIES": ",".join(given.proxies),
        "HTTP__ORIGINS": ",".join(given.origins),
    }
    return [{"name": f"TENANTRY_{key}", "value": value} for key, value in values.items() if value]


def image_of(image: str, version: str) -> str:
    """The platform's image, or the same of another version."""
    if not version:
        return image
    base = image.partition("@")[0]
    name, colon, tag = base.rpartition(":")
    return f"{name if colon and '/' not in tag else base}:{version}"


_UNITS = ("Mi", "Gi", "Ti", "Pi")


def quantity(storage: str) -> str:
    """The quantity as the API server writes it: in the largest unit that leaves a whole number."""
    number, unit = int(storage[:-2]), _UNITS.index(storage[-2:])
    while number % 1024 == 0 and unit < len(_UNITS) - 1:
        number, unit = number // 1024, unit + 1
    return f"{number}{_UNITS[unit]}"


def probe(path: str, port: int, period_s: int, failures: int) -> dict[str, Any]:
    """A probe of an engine's process by HTTP."""
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def scaled_by_cpu(workload: Mapping[str, str], least: int, most: int, average: str) -> dict[str, Any]:
    """The spec of a HorizontalPodAutoscaler. workload: its reference; average: the CPU of a pod that it is to reach.

    It adds pods at once, and takes one at a time: a pod that starts computes much, and users of one that ends come again.
    """
    return {
        "scaleTargetRef": dict(workload),
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": average}}}
        ],
        "behavior": {
            "scaleUp": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": STEP_S}],
            },
            "scaleDown": {
                "stabilizationWindowSeconds": SETTLES_S,
                "selectPolicy": "Max",
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": STEP_S}],
            },
        },
    }


def spread_over_nodes(selector: Mapping[str, str]) -> dict[str, Any]:
    """The rule that pods run on different nodes, as far as there are any."""
    labels = {"labelSelector": {"matchLabels": dict(selector)}}
    return {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", **labels}
