"""The objects of one engine on Kubernetes, and what they tell of it. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tenantry.adapters.kubernetes.engines.pods import (
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    EnginePods,
    image_of,
    managed_names,
    network_variables,
    ports_out,
    probe,
    quantity,
    scaled_by_cpu,
    spread_over_nodes,
)
from tenantry.model.facts import MOVING_MARK, EngineRef, EngineSpec, awaits_archive
from tenantry.model.quotas import bytes_of
from tenantry.model.resource import GROUP, Document

NAME = "engine"
POD = f"{NAME}-0"
RESTORE = "restore"
"""The container that waits for an archive."""
PORT = 8080
MANAGED_BY = {"app.kubernetes.io/managed-by": "tenantry", "app.kubernetes.io/name": "tenantry-engine"}
ID_LABEL = f"{GROUP}/environment-id"
SPEC_ANNOTATION = f"{GROUP}/engine-spec"
ADMIN_ANNOTATION = f"{GROUP}/admin-secret"
"""On the engine's Secret: the name of the tenant's Secret from which it has its password."""
INGRESS_LABEL = f"{GROUP}/ingress"
"""On a namespace whose pods may reach engines from outside: that of the ingress controller."""
PASSWORD_KEY = "password"  # noqa: S105 - a key's name
DATABASE_KEY = "url"
DATABASE_ANNOTATION = f"{GROUP}/database"
"""On the pod, so that an engine whose database is another starts anew."""
DEFAULT_STORAGE = "1Gi"
DATA_PATH = "/data"
KEYS_PATH, ADMIN_PATH, DATABASE_PATH = "/etc/tenantry/keys", "/etc/tenantry/admin", "/etc/tenantry/database"
_STARTS_ANEW_S = 10
LIMITS = ("DATABASE_LIMIT", "REQUEST_LIMIT")
_WRITTEN_IF_SET = frozenset(
    ("database_limit", "request_limit", "pool", "capacity", "replicas", "max_replicas", "cpu_target", "asleep", "on_request")
)
AUTOSCALER = "autoscaling/v2", "HorizontalPodAutoscaler"
ONE_EACH = {"persistentvolumeclaims": "1", "services": "1"}
POOL_PREFIX = "pool-"
POOL_LABEL, REGION_LABEL = f"{GROUP}/pool", f"{GROUP}/region"
BY_ID = "e"
"""The first part of the path of an engine at its pool."""


@dataclass(frozen=True)
class Placement:
    """Settings of the host and the region for engines. facade_url: the place to change declared objects, by environment id.

    http, networks: which issuers engines reach besides public ones by https; networks such as 10.1.0.0/16. proxy: the URL of the
    proxy to issuers. proxies: networks whose X-Forwarded-* engines believe. origins: of web pages that may call engines.
    """

    image: str
    pull_policy: str
    issuer: str
    facade_url: str
    system_namespace: str
    subdomain: str = ""
    ingress_class: str = ""
    tls: bool = True
    storage_class: str = ""
    http: bool = False
    networks: tuple[str, ...] = ()
    proxy: str = ""
    proxies: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    pods: EnginePods = field(default_factory=EnginePods)


@dataclass(frozen=True)
class EngineCredentials:
    """The secrets of an engine. admin_password: clear text or an argon2id hash; database_url: `""` for SQLite in its volume.

    admin_secret: the name of the tenant's Secret with the password. database_mark: distinguishes databases, `""` for none. A pool
    has no password, and the URL from which it derives those of its engines.
    """

    admin_password: str
    admin_secret: str
    jwks: Mapping[str, Any]
    database_url: str = ""
    database_mark: str = ""


def namespace_of(id_: str) -> str:
    """The namespace of the engine of the environment with that id, or of the pool with that id."""
    return f"env-{id_}" if id_.startswith(POOL_PREFIX) else f"env-{id_.lower()[:13].rstrip('-')}"


def service_url(id_: str) -> str:
    """Return the URL of the engine within its cluster."""
    return f"http://{NAME}.{namespace_of(id_)}.svc:{PORT}"


def address_of(id_: str, pool: str) -> str:
    """Return the URL of an engine within its cluster, in its pool where it is in one."""
    return f"{service_url(pool)}/{BY_ID}/{id_}" if pool else service_url(id_)


def is_service(url: str) -> bool:
    """Return True for a URL of `address_of`, and of `service_url`."""
    return url.startswith(f"http://{NAME}.env-") and f".svc:{PORT}" in url


def public_host(placement: Placement, tenant_slug: str, slug: str) -> str:
    """The host name of an environment, `""` where the region publishes none."""
    if not placement.ingress_class or not placement.subdomain or not tenant_slug:
        return ""
    return f"{slug}--{tenant_slug}.{placement.subdomain}"


def url_of(placement: Placement, ref: EngineRef, pool: str = "") -> str:
    """Return the public URL of the engine."""
    host = public_host(placement, ref.tenant_slug, ref.slug)
    if not host:
        return address_of(ref.id, pool)
    return f"{'https' if placement.tls else 'http'}://{host}"


def labels_of(ref: EngineRef) -> dict[str, str]:
    """Return the labels of every object of the engine; they identify its environment. Those of a pool identify its Region."""
    if ref.is_pool:
        return {**MANAGED_BY, ID_LABEL: ref.id, REGION_LABEL: ref.name, POOL_LABEL: ref.slug}
    return {**MANAGED_BY, ID_LABEL: ref.id, f"{GROUP}/namespace": ref.namespace, f"{GROUP}/environment": ref.name}


def ref_of_labels(labels: Mapping[str, str]) -> EngineRef | None:
    """The engine or the pool whose object carries these labels, without its slugs."""
    try:
        if POOL_LABEL in labels:
            return EngineRef("", labels[REGION_LABEL], labels[ID_LABEL], slug=labels[POOL_LABEL])
        return EngineRef(labels[f"{GROUP}/namespace"], labels[f"{GROUP}/environment"], labels[ID_LABEL])
    except KeyError:
        return None


def engine_objects(spec: EngineSpec, placement: Placement, credentials: EngineCredentials) -> tuple[Document, ...]:
    """Everything of one engine, its namespace first, in the order in which it is applied."""
    objects = [
        _namespace(spec),
        _object("v1", "ServiceAccount", spec, automountServiceAccountToken=False),
        _network_policy(spec, placement),
        *((_secret(spec, credentials),) if credentials.database_mark or not spec.capacity else ()),
        _config_map(spec, placement, credentials),
        *((_claim(spec, placement),) if spec.has_volume else ()),
        _object("v1", "Service", spec, spec={"selector": _selector(spec), "ports": [_port()], "type": "ClusterIP"}),
        # After what it counts: a creation that is cut off is counted all the same, and for minutes leaves no room for the next.
        _object("v1", "ResourceQuota", spec, spec={"hard": {"pods": _most_pods(spec), **ONE_EACH}}),
        _stateful_set(spec, placement, credentials.database_mark),
    ]
    if spec.max_replicas:
        objects.append(_autoscaler(spec, placement))
    if _is_published(spec, placement):
        objects.append(_ingress(spec, placement))
    return tuple(objects)


def pooled_ingress(spec: EngineSpec, placement: Placement) -> tuple[Document, bool]:
    """Return the Ingress of an engine in a pool, in the pool's namespace; and False where the region publishes no host."""
    ingress = _ingress(spec, placement)
    metadata = {"name": namespace_of(spec.ref.id), "namespace": namespace_of(spec.pool), "labels": labels_of(spec.ref)}
    return {**ingress, "metadata": metadata}, public_host(placement, spec.ref.tenant_slug, spec.ref.slug) != ""


def _most_pods(spec: EngineSpec) -> str:
    """With two more, for a pod that goes while another comes."""
    return str(max(spec.most_replicas, 1) + 2)


def unwanted_objects(spec: EngineSpec, placement: Placement) -> tuple[Document, ...]:
    """Return the objects that an engine has elsewhere, or had before, but not here."""
    unpublished = () if _is_published(spec, placement) else (_object("networking.k8s.io/v1", "Ingress", spec),)
    # Only the pods of a pool on a server may have had one.
    return unpublished if spec.has_volume or spec.max_replicas else (*unpublished, _object(*AUTOSCALER, spec))


def _is_published(spec: EngineSpec, placement: Placement) -> bool:
    """Return True if the host of an engine leads to its pod. While it comes there, the host leads to where it was."""
    return spec.restoring != MOVING_MARK and public_host(placement, spec.ref.tenant_slug, spec.ref.slug) != ""


def is_scaled(stateful_set: Document) -> bool:
    """Return True if an autoscaler sets the number of pods of a workload, as that was made."""
    spec = spec_of(stateful_set)
    return spec is not None and spec.max_replicas > 0


def spec_of(stateful_set: Document) -> EngineSpec | None:
    """The spec that the workload was made for."""
    written = (stateful_set["metadata"].get("annotations") or {}).get(SPEC_ANNOTATION)
    try:
        value = json.loads(written) if written else None
        return EngineSpec(**{**value, "ref": EngineRef(**value["ref"])}) if value else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _object(api_version: str, kind: str, engine: EngineSpec, /, **body: Any) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": namespace_of(engine.ref.id), "labels": labels_of(engine.ref)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def _namespace(spec: EngineSpec) -> dict[str, Any]:
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    metadata = {"name": namespace_of(spec.ref.id), "labels": {**labels_of(spec.ref), **levels}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _selector(spec: EngineSpec) -> dict[str, str]:
    return {ID_LABEL: spec.ref.id}


def _port() -> dict[str, Any]:
    return {"name": "http", "port": PORT, "protocol": "TCP", "targetPort": PORT}


def _secret(spec: EngineSpec, credentials: EngineCredentials) -> dict[str, Any]:
    database = {DATABASE_KEY: credentials.database_url} if credentials.database_mark else {}
    values = database if spec.capacity else {PASSWORD_KEY: credentials.admin_password, **database}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    secret = _object("v1", "Secret", spec, data=data, type="Opaque")
    if not spec.capacity:
        secret["metadata"]["annotations"] = {ADMIN_ANNOTATION: credentials.admin_secret}
    return secret


def _claim(spec: EngineSpec, placement: Placement) -> dict[str, Any]:
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": quantity(spec.storage or DEFAULT_STORAGE)}},
    }
    if placement.storage_class:
        claim["storageClassName"] = placement.storage_class
    return _object("v1", "PersistentVolumeClaim", spec, spec=claim)


def _config_map(spec: EngineSpec, placement: Placement, credentials: EngineCredentials) -> dict[str, Any]:
    """The files of the pod beside its Secret. A change of them restarts nothing, so an engine that came goes on to serve."""
    comes = {MOVING_MARK: spec.ref.id} if spec.restoring == MOVING_MARK else {}
    jwks = json.dumps(credentials.jwks, sort_keys=True)
    return _object("v1", "ConfigMap", spec, data={"jwks.json": jwks, **placement.pods.files, **comes})


def _network_policy(spec: EngineSpec, placement: Placement) -> dict[str, Any]:
    """In: the platform, and the ingress where there is one. Out: names, databases and identity providers."""
    sources = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": placement.system_namespace}}}]
    if placement.ingress_class:
        sources.append({"namespaceSelector": {"matchLabels": {INGRESS_LABEL: "true"}}})
    names = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    services = {"ports": [{"port": port, "protocol": "TCP"} for port in ports_out(placement, *placement.pods.collector_ports)]}
    issuers = [{"to": [{"ipBlock": {"cidr": network}} for network in placement.networks]}] if placement.networks else []
    rules = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": sources, "ports": [{"port": PORT, "protocol": "TCP"}]}, *placement.pods.ingress],
        "egress": [names, services, *issuers],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", spec, spec=rules)


def _stateful_set(spec: EngineSpec, placement: Placement, database: str) -> dict[str, Any]:
    """A StatefulSet: it never runs two pods on a volume, which holds SQLite databases, and names of replicas stay."""
    workload = _object("apps/v1", "StatefulSet", spec)
    # Without what it does not have: it was written so before there was any.
    written = {key: value for key, value in asdict(spec).items() if value or key not in _WRITTEN_IF_SET}
    workload["metadata"]["annotations"] = {SPEC_ANNOTATION: json.dumps(written, sort_keys=True)}
    annotations = placement.pods.annotations | ({DATABASE_ANNOTATION: database} if database else {})
    metadata = {"labels": labels_of(spec.ref), **({"annotations": annotations} if annotations else {})}
    template = {"metadata": metadata, "spec": _pod(spec, placement, database=bool(database))}
    return workload | {
        "spec": {
            "replicas": 0 if spec.asleep else spec.replicas or 1,
            "serviceName": NAME,
            "podManagementPolicy": "OrderedReady" if spec.has_volume else "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": _selector(spec)},
            "template": template,
        }
    }


def _pod(spec: EngineSpec, placement: Placement, *, database: bool) -> dict[str, Any]:
    secret_items = [{"key": PASSWORD_KEY, "path": "password"}]
    admin = {"name": "admin", "secret": {"secretName": NAME, "items": secret_items}}
    copies = {"emptyDir": {"sizeLimit": quantity(spec.storage or DEFAULT_STORAGE)}}
    volumes = [
        {"name": "data", **({"persistentVolumeClaim": {"claimName": NAME}} if spec.has_volume else copies)},
        {"name": "keys", "configMap": {"name": NAME}},
        *(() if spec.capacity else (admin,)),
        {"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}},
    ]
    if database:
        volumes.append({"name": "database", "secret": {"secretName": NAME, "items": [{"key": DATABASE_KEY, "path": "url"}]}})
    volumes += map(dict, placement.pods.volumes)
    spread = [spread_over_nodes(_selector(spec))] if spec.most_replicas > 1 else []
    engine = _container(spec, placement, database=database)
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 15,
        "securityContext": RESTRICTED_POD,
        "initContainers": [_awaiting(engine)] if awaits_archive(spec.restoring) and spec.restoring != MOVING_MARK else [],
        "containers": [engine],
        "volumes": volumes,
        **({"topologySpreadConstraints": spread} if spread else {}),
    }


def _awaiting(engine: Mapping[str, Any]) -> dict[str, Any]:
    """The engine does not start on an empty volume: an archive is brought to this container, which then ends."""
    alike = ("image", "imagePullPolicy", "env", "resources", "volumeMounts", "securityContext")
    return {"name": RESTORE, "args": ["engine", "await", "--data", DATA_PATH], **{key: engine[key] for key in alike}}


def _variables(spec: EngineSpec, placement: Placement, *, database: bool) -> dict[str, str]:
    """Return the settings of the process, without their common prefix."""
    if spec.capacity:
        shared = {"FACADE_URL": placement.facade_url, "ISSUER": placement.issuer, "JWKS": f"{KEYS_PATH}/jwks.json"}
        pool = {"POOL": spec.ref.id, "CAPACITY": str(spec.capacity), **shared}
        copies = str(bytes_of(spec.storage or DEFAULT_STORAGE))
        pool |= {"DATABASE_URL": f"{DATABASE_PATH}/url", "COPIES": copies} if database else {}
        return {f"MANAGED__{key}": value for key, value in pool.items()}
    managed = {
        **managed_names(spec.ref),
        "FACADE_URL": f"{placement.facade_url}/engines/{spec.ref.id}/api/v1",
        "ISSUER": placement.issuer,
        "JWKS": f"{KEYS_PATH}/jwks.json",
        "ADMIN_PASSWORD": f"{ADMIN_PATH}/password",
    }
    if public_host(placement, spec.ref.tenant_slug, spec.ref.slug):
        managed["PUBLIC_URL"] = url_of(placement, spec.ref)
    managed |= {name: str(limit) for name, limit in zip(LIMITS, spec.limits, strict=True) if limit}
    if database:
        managed["DATABASE_URL"] = f"{DATABASE_PATH}/url"
    return {f"MANAGED__{key}": value for key, value in managed.items()}


def _container(spec: EngineSpec, placement: Placement, *, database: bool) -> dict[str, Any]:
    mounts = [
        {"name": "data", "mountPath": DATA_PATH},
        {"name": "keys", "mountPath": KEYS_PATH, "readOnly": True},
        *(() if spec.capacity else ({"name": "admin", "mountPath": ADMIN_PATH, "readOnly": True},)),
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod
    ]
    if database:
        mounts.append({"name": "database", "mountPath": DATABASE_PATH, "readOnly": True})
    mounts += map(dict, placement.pods.volume_mounts)
    settings = _variables(spec, placement, database=database).items()
    variables = [{"name": f"TENANTRY_{key}", "value": value} for key, value in settings]
    return {
        "name": NAME,
        "image": image_of(placement.image, spec.version),
        "imagePullPolicy": placement.pull_policy,
        "args": [
            *("pool" if spec.capacity else "engine", "--data", DATA_PATH, "--listen", f"0.0.0.0:{PORT}"),
            *("--log-format", placement.pods.log_format),
        ],
        "env": [*variables, *network_variables(placement), *placement.pods.variables(KEYS_PATH)],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}, *placement.pods.ports],
        "resources": placement.pods.resources(spec.size),
        "volumeMounts": mounts,
        "startupProbe": probe("/healthz", PORT, 2, 60),
        "livenessProbe": probe("/healthz", PORT, _STARTS_ANEW_S, 3),
        "readinessProbe": probe("/readyz", PORT, 3, 3),
        "securityContext": RESTRICTED_CONTAINER,
    }


def _autoscaler(spec: EngineSpec, placement: Placement) -> dict[str, Any]:
    workload = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME}
    average = placement.pods.cpu_of(spec.size, spec.cpu_target)
    return _object(*AUTOSCALER, spec, spec=scaled_by_cpu(workload, spec.replicas, spec.max_replicas, average))


def _ingress(spec: EngineSpec, placement: Placement) -> dict[str, Any]:
    host = public_host(placement, spec.ref.tenant_slug, spec.ref.slug)
    backend = {"service": {"name": NAME, "port": {"number": PORT}}}
    rules: dict[str, Any] = {
        "ingressClassName": placement.ingress_class,
        "rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
        "tls": [{"hosts": [host]}] if placement.tls else [],
    }
    return _object("networking.k8s.io/v1", "Ingress", spec, spec=rules)
