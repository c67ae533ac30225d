"""etcd, kube-apiserver and kube-controller-manager as processes of this test session, on loopback."""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.ports import free_port

READY_S = 300.0
SELDOM_COLLECTED = {"GOGC": "400"}
"""Go's garbage collector takes much of the time of programs that live for a minute, and memory is there."""
CONTROLLER_MANAGER = "kube-controller-manager"
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "validatingadmissionpolicy-status-controller",
)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata", "omitStages": ["RequestReceived"]}],
}


@dataclass(frozen=True)
class Cluster:
    """A cluster to test against. kubeconfig: that of an administrator; audit: the API server's audit log, where we run it.

    controllers: whether namespaces are emptied and workloads worked off; envtest's assets have no program for that.
    """

    kubeconfig: Path
    kubectl: Path | None
    controllers: bool = True
    audit: Path | None = None
    control_plane: ControlPlane | None = None


@dataclass
class ControlPlane:
    """The processes, which a test may stop and start again on the same ports and data.

    bare: without controllers and audit log, for what measures.
    """

    programs: Path
    folder: Path
    bare: bool = False
    ports: dict[str, int] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    def prepare(self) -> None:
        """Keys, tokens, ports and the kubeconfig."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ports = {name: free_port() for name in ("etcd", "api", "controllers")}
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        _private(self.folder / "sa.key", key.private_bytes(*pem))
        _private(self.folder / "tokens.csv", f'{self.token},admin,admin,"system:masters"\n'.encode())
        (self.folder / "audit.yaml").write_text(json.dumps(AUDIT_POLICY))
        _private(self.kubeconfig, yaml.safe_dump(self._kubeconfig()).encode())

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports['api']}"

    def start(self) -> None:
        """Starts what does not run, and returns when it is ready."""
        for name, command in self._commands().items():
            if name not in self.running and (self.programs / name).exists() and not (self.bare and name == CONTROLLER_MANAGER):
                log = (self.folder / f"{name}.log").open("ab")
                self.running[name] = subprocess.Popen(
                    command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | SELDOM_COLLECTED
                )
            if name == "kube-apiserver":
                self._wait_ready()

    def stop(self, *names: str) -> None:
        """Ends some, or all, by their ids; what has others on top ends last."""
        for name in names or tuple(reversed(tuple(self.running))):
            process = self.running.pop(name)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def compact(self) -> None:
        """Forgets every version but the newest of each object, as etcd does in time."""
        newest = self._ask_etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("/v3/kv/compaction", {"revision": newest, "physical": True})

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> Any:
        with urllib.request.urlopen(f"{self._etcd}{path}", json.dumps(body).encode(), timeout=10) as answer:
            return json.load(answer)

    @property
    def _etcd(self) -> str:
        return f"http://127.0.0.1:{self.ports['etcd']}"

    def _commands(self) -> dict[str, list[str]]:
        etcd, own = self._etcd, self.folder
        return {
            "etcd": [
                f"{self.programs}/etcd",
                f"--data-dir={own}/etcd",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                "--listen-peer-urls=http://127.0.0.1:0",
                "--unsafe-no-fsync",
                "--log-level=error",
            ],
            "kube-apiserver": [
                f"{self.programs}/kube-apiserver",
                f"--etcd-servers={etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={self.ports['api']}",
                f"--cert-dir={own}/certificates",
                f"--token-auth-file={own}/tokens.csv",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={own}/sa.key",
                f"--service-account-signing-key-file={own}/sa.key",
                *([] if self.bare else [f"--audit-policy-file={own}/audit.yaml", f"--audit-log-path={own}/audit.log"]),
                "--allow-privileged",
                "--endpoint-reconciler-type=none",
            ],
            CONTROLLER_MANAGER: [
                f"{self.programs}/kube-controller-manager",
                f"--kubeconfig={self.kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.ports['controllers']}",
                f"--cert-dir={own}/certificates",
                f"--service-account-private-key-file={own}/sa.key",
                f"--root-ca-file={own}/certificates/apiserver.crt",
                "--leader-elect=false",
                "--use-service-account-credentials",
                f"--controllers={','.join(CONTROLLERS)}",
            ],
        }

    def _kubeconfig(self) -> dict[str, object]:
        """The API server signs its own certificate, which so is its CA."""
        cluster = {"server": self.server, "certificate-authority": f"{self.folder}/certificates/apiserver.crt"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
        }

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while not self._ready():
            for name, process in self.running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: {self._said(name)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the API server is not ready after {READY_S:.0f} s: {self._said('kube-apiserver')}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        request = urllib.request.Request(f"{self.server}/readyz", headers={"Authorization": f"Bearer {self.token}"})
        try:
            context = ssl.create_default_context(cafile=f"{self.folder}/certificates/apiserver.crt")
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                return bool(answer.status == 200)
        except (OSError, ssl.SSLError):
            return False

    def _said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]


@contextmanager
def control_plane(programs: Path, folder: Path, *, bare: bool = False) -> Iterator[Cluster]:
    """A cluster of its own, ended with the block. bare: see ControlPlane."""
    plane = ControlPlane(programs, folder, bare)
    plane.prepare()
    try:
        plane.start()
        kubectl = programs / "kubectl"
        controllers = CONTROLLER_MANAGER in plane.running
        audit = None if bare else folder / "audit.log"
        yield Cluster(plane.kubeconfig, kubectl if kubectl.exists() else None, controllers, audit, plane)
    finally:
        plane.stop()


def _private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def given_cluster() -> Cluster | None:
    """The cluster that KUBECONFIG names, if it does."""
    path = os.environ.get("KUBECONFIG")
    return Cluster(Path(path), None) if path else None
