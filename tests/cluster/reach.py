"""The reach of a stolen token of each of our accounts: each row is tried with a real token, and is in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.charting import NAMESPACE

TENANT, OTHER, ENGINE = "tenant-fresh", "tenant-acme", "env-11111111-2222"
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Attempt:
    """One try with a token. reaches: is it let in? given: the object on standard input, for `kubectl create -f -`."""

    account: str
    tries: str
    reaches: bool
    command: tuple[str, ...]
    given: Document | None = None

    @property
    def row(self) -> str:
        """The line of the table in docs/kubernetes-security.md."""
        return f"| `{self.account}` | {self.tries} | {'yes' if self.reaches else 'no'} |"


def _object(kind: str, name: str, namespace: str = "", api_version: str = "v1", /, **body: Any) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **body.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def _token_secret(account: str, namespace: str) -> Document:
    marks = {"annotations": {"kubernetes.io/service-account.name": account}}
    return _object("Secret", "stolen", namespace, metadata=marks, type="kubernetes.io/service-account-token")


def _patch(kind: str, name: str, namespace: str = NAMESPACE) -> tuple[str, ...]:
    change = ("--type=merge", "-p", '{"data":{"release":"eA=="}}')
    return ("patch", "--dry-run=server", kind, name, "-n", namespace, *change)


def _stateful_set(namespace: str, account: str) -> Document:
    labels = {"matchLabels": {"a": "b"}}
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"serviceName": "x", "selector": labels, "template": pod}
    return _object("StatefulSet", "stolen", namespace, "apps/v1", spec=spec)


def _autoscaler(namespace: str) -> Document:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "anything"}
    spec = {"scaleTargetRef": target, "maxReplicas": 100}
    return _object("HorizontalPodAutoscaler", "stolen", namespace, "autoscaling/v2", spec=spec)


def _endpoints(namespace: str) -> Document:
    body = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "http", "port": 80}]}
    return _object("EndpointSlice", "stolen", namespace, "discovery.k8s.io/v1", **body)


def _binding(namespace: str, role: str) -> Document:
    rbac = "rbac.authorization.k8s.io"
    subjects = [{"apiGroup": rbac, "kind": "User", "name": "thief"}]
    role_ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": role}
    return _object("RoleBinding", "stolen", namespace, f"{rbac}/v1", roleRef=role_ref, subjects=subjects)


def _namespace(name: str, labels: Mapping[str, str]) -> Document:
    return _object("Namespace", name, metadata={"labels": dict(labels)})


def _user() -> Document:
    spec = {"username": "thief", "role": "SUPERUSER", "passwordSecretRef": {"name": "thief"}}
    return _object("User", "thief", NAMESPACE, "tenantry.dev/v1alpha1", spec=spec)


def _environment(namespace: str) -> Document:
    return _object("Environment", "stolen", namespace, "tenantry.dev/v1alpha1", spec={"region": "home"})


MAKE = ("create", "--dry-run=server", "-f", "-")
_LABEL = ("label", "--dry-run=server", "--overwrite", "namespace")
_DELETE = ("delete", "--dry-run=server")
_ADOPT = "tenantry.dev/tenant=fresh"
_SECRET: Mapping[str, Any] = {"stringData": {"a": "b"}}

_RELEASE = "sh.helm.release.v1.tenantry.v1"
_CONFIG_MAP = ("get", "configmap", "coredns", "-n", "kube-system")
_TYPE: Mapping[str, Any] = {"type": "helm.sh/release.v1"}
_LABELLED: Mapping[str, Any] = {"metadata": {"labels": {"owner": "helm", "name": "tenantry", "status": "deployed"}}}


def _own_release(account: str) -> tuple[Attempt, ...]:
    """Each way at the record of our own release, for an account that can read the Secrets beside it."""
    return (
        Attempt(account, "read the releases of Helm", True, ("get", "secret", _RELEASE, "-n", NAMESPACE)),
        Attempt(account, "change the release of Helm", False, _patch("secret", _RELEASE)),
        Attempt(account, "delete the release of Helm", False, (*_DELETE, "secret", _RELEASE, "-n", NAMESPACE)),
    )


def _releases(account: str, *writable: str) -> tuple[Attempt, ...]:
    """Each way to write what Helm keeps of a release, in each namespace where the account writes Secrets."""
    made = []
    for namespace in writable:
        place = "of the platform" if namespace == NAMESPACE else "in a tenant's namespace"
        made += [
            Attempt(account, f"make a release of Helm {place}", False, MAKE, _object("Secret", "stolen", namespace, **_TYPE)),
            Attempt(account, f"make one by its label {place}", False, MAKE, _object("Secret", "stolen", namespace, **_LABELLED)),
            Attempt(account, f"make one by its name {place}", False, MAKE, _object("Secret", f"{_RELEASE}0", namespace)),
        ]
    return tuple(made)


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("tenantry-operator", "read every Secret of the cluster", True, ("get", "secrets", "-n", "kube-system")),
    Attempt("tenantry-operator", "write Secrets of the platform", True, MAKE, _object("Secret", "s", NAMESPACE, **_SECRET)),
    Attempt("tenantry-operator", "write Secrets of a tenant", True, MAKE, _object("Secret", "s", TENANT, **_SECRET)),
    Attempt("tenantry-operator", "write Secrets of another namespace", False, MAKE, _object("Secret", "s", "default", **_SECRET)),
    Attempt("tenantry-operator", "delete an engine with its data", True, (*_DELETE, "namespace", ENGINE)),
    Attempt("tenantry-operator", "delete another namespace", False, (*_DELETE, "namespace", "others")),
    Attempt("tenantry-operator", "make a tenant's namespace", True, MAKE, _namespace("t-new", {"tenantry.dev/tenant": "new"})),
    Attempt("tenantry-operator", "make another namespace a tenant's", False, (*_LABEL, "others", _ADOPT)),
    Attempt("tenantry-operator", "make `kube-system` a tenant's", False, (*_LABEL, "kube-system", _ADOPT)),
    Attempt(
        "tenantry-operator", "make another namespace an engine's", False, (*_LABEL, "others", "tenantry.dev/environment-id=an-id")
    ),
    Attempt(
        "tenantry-operator",
        "make a namespace in which pods may have the node",
        False,
        MAKE,
        _namespace("env-new", {"tenantry.dev/environment-id": "an-id", "pod-security.kubernetes.io/enforce": "privileged"}),
    ),
    Attempt("tenantry-operator", "run pods beside an engine, as `engine`", True, MAKE, _stateful_set(ENGINE, "engine")),
    Attempt("tenantry-operator", "run pods beside an engine, as another account", False, MAKE, _stateful_set(ENGINE, "other")),
    Attempt("tenantry-operator", "run pods in a tenant's namespace", False, MAKE, _stateful_set(TENANT, "engine")),
    Attempt("tenantry-operator", "run pods of the platform", False, MAKE, _stateful_set(NAMESPACE, "tenantry-operator")),
    Attempt("tenantry-operator", "run pods in `kube-system`", False, MAKE, _stateful_set("kube-system", "engine")),
    Attempt("tenantry-operator", "set the number of pods beside an engine", True, MAKE, _autoscaler(ENGINE)),
    Attempt("tenantry-operator", "set the number of a tenant's pods", False, MAKE, _autoscaler(TENANT)),
    Attempt("tenantry-operator", "set the number of pods of the platform", False, MAKE, _autoscaler(NAMESPACE)),
    Attempt("tenantry-operator", "lead requests for an engine elsewhere", True, MAKE, _endpoints(ENGINE)),
    Attempt("tenantry-operator", "lead requests for a tenant's Service elsewhere", False, MAKE, _endpoints(TENANT)),
    Attempt("tenantry-operator", "lead requests for the platform elsewhere", False, MAKE, _endpoints(NAMESPACE)),
    Attempt("tenantry-operator", "make somebody a tenant's admin", True, MAKE, _binding(TENANT, "tenantry-tenant-admin")),
    Attempt("tenantry-operator", "make somebody `cluster-admin`", False, MAKE, _binding(TENANT, "cluster-admin")),
    Attempt(
        "tenantry-operator", "let somebody into another namespace", False, MAKE, _binding("default", "tenantry-tenant-admin")
    ),
    Attempt(
        "tenantry-operator",
        "give an engine's volume to others",
        False,
        ("patch", "--dry-run=server", "pv", "reach", "--type=merge", "-p", '{"spec":{"claimRef":{"namespace":"default"}}}'),
    ),
    Attempt(
        "tenantry-operator",
        "change another volume",
        False,
        ("patch", "--dry-run=server", "pv", "foreign", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}'),
    ),
    Attempt("tenantry-operator", "a lasting token of its own", False, MAKE, _token_secret("tenantry-operator", NAMESPACE)),
    Attempt("tenantry-operator", "a lasting token of another account", False, MAKE, _token_secret("default", "kube-system")),
    Attempt("tenantry-operator", "a lasting token of a tenant", False, MAKE, _token_secret("tenantry-admin", TENANT)),
    Attempt("tenantry-operator", "a token of another account", False, ("create", "token", "default", "-n", "kube-system")),
    *_own_release("tenantry-operator"),
    *_releases("tenantry-operator", NAMESPACE, TENANT),
    Attempt("tenantry-operator", "read a ConfigMap of `kube-system`", True, _CONFIG_MAP),
    Attempt("tenantry-operator", "list all pods", True, ("get", "pods", "-A")),
    Attempt("tenantry-operator", "list all events", True, ("get", "events", "-A")),
    Attempt("tenantry-api", "read the Secrets of the platform, its keys too", True, ("get", "secrets", "-n", NAMESPACE)),
    Attempt("tenantry-api", "read the Secrets of a tenant", True, ("get", "secrets", "-n", TENANT)),
    Attempt("tenantry-api", "read the Secret of an engine", False, ("get", "secrets", "-n", ENGINE)),
    Attempt("tenantry-api", "read Secrets of another namespace", False, ("get", "secrets", "-n", "kube-system")),
    Attempt("tenantry-api", "read all Secrets at once", False, ("get", "secrets", "-A")),
    Attempt("tenantry-api", "make a SUPERUSER", True, MAKE, _user()),
    Attempt("tenantry-api", "change what a tenant declares", True, MAKE, _environment(TENANT)),
    Attempt("tenantry-api", "act as a tenant's admin", True, ("get", "tenv", "-n", TENANT, "--as", f"{TENANT}:tenantry-admin")),
    Attempt(
        "tenantry-api", "act as the operator", False, ("get", "tenv", "-n", TENANT, "--as", f"{NAMESPACE}:tenantry-operator")
    ),
    Attempt("tenantry-api", "run pods beside an engine", False, MAKE, _stateful_set(ENGINE, "engine")),
    Attempt("tenantry-api", "delete an engine with its data", False, (*_DELETE, "namespace", ENGINE)),
    Attempt("tenantry-api", "a lasting token of the operator", False, MAKE, _token_secret("tenantry-operator", NAMESPACE)),
    Attempt("tenantry-api", "a lasting token of a tenant", False, MAKE, _token_secret("tenantry-admin", TENANT)),
    Attempt(
        "tenantry-api",
        "a lasting token of a tenant, in its name",
        False,
        (*MAKE, "--as", f"{TENANT}:tenantry-admin"),
        _token_secret("tenantry-admin", TENANT),
    ),
    *_own_release("tenantry-api"),
    *_releases("tenantry-api", NAMESPACE, TENANT),
    Attempt("tenantry-api", "read a ConfigMap of `kube-system`", False, _CONFIG_MAP),
    Attempt("tenantry-api", "list all ConfigMaps", False, ("get", "configmaps", "-A")),
    Attempt("tenantry-api", "list all pods", False, ("get", "pods", "-A")),
    Attempt("tenantry-api", "list all events", False, ("get", "events", "-A")),
    Attempt("tenantry-uninstall", "list what is declared", True, ("get", "tenants")),
    Attempt("tenantry-uninstall", "take our finalizer off", False, ("annotate", "tenv/kept", "-n", OTHER, "a=b")),
    Attempt("tenantry-uninstall", "list all pods", False, ("get", "pods", "-A")),
    Attempt("tenantry-uninstall", "read Secrets", False, ("get", "secrets", "-n", NAMESPACE)),
    Attempt("tenantry-admin", "change what its tenant declares", True, MAKE, _environment(TENANT)),
    Attempt("tenantry-admin", "read its tenant's Secrets", True, ("get", "secrets", "-n", TENANT)),
    Attempt("tenantry-admin", "read another tenant's Secrets", False, ("get", "secrets", "-n", OTHER)),
    Attempt("tenantry-admin", "change what another tenant declares", False, MAKE, _environment(OTHER)),
    Attempt("tenantry-admin", "read the Secret of its engine", False, ("get", "secrets", "-n", ENGINE)),
    *_releases("tenantry-admin", TENANT),
    Attempt("tenantry-admin", "read pods beside its engine", False, ("get", "pods", "-n", ENGINE)),
    Attempt("tenantry-admin", "make a User", False, MAKE, _user()),
    Attempt("tenantry-admin", "let somebody in", False, MAKE, _binding(TENANT, "tenantry-tenant-admin")),
    Attempt("tenantry-admin", "a lasting token of its own", False, MAKE, _token_secret("tenantry-admin", TENANT)),
    Attempt("tenantry-viewer", "read what its tenant declares", True, ("get", "tenv", "-n", TENANT)),
    Attempt("tenantry-viewer", "read its tenant's Secrets", False, ("get", "secrets", "-n", TENANT)),
    Attempt("tenantry-viewer", "change what its tenant declares", False, MAKE, _environment(TENANT)),
    Attempt("engine", "read the Secret from which its pod has its password", False, ("get", "secrets", "-n", ENGINE)),
    Attempt("engine", "read what its tenant declares", False, ("get", "tenv", "-n", TENANT)),
)
PLACE = {"tenantry-admin": TENANT, "tenantry-viewer": TENANT, "engine": ENGINE}
"""The namespaces of the accounts that are not in the release's namespace."""
