"""`tenantry operator` and `tenantry api` as processes against an API server, with the rights of the release's accounts."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.releases import Run, kubeconfig_of
from tests.scenario.cli import PATIENCE_S, environment
from tests.support import waiting
from tests.support.forked_commands import start
from tests.support.patience import DEADLINE_S
from tests.support.ports import free_port


def until(holds: Callable[[], Any], what: str, within: float = PATIENCE_S, explained: Callable[[], str] = str) -> Any:
    """Return the answer of `holds` as soon as it is true. explained: says why it is not, asked at the end."""
    return waiting.until(holds, within=within, shows=lambda: f"not {what} {explained()}")


@dataclass
class Operator:
    """A running `tenantry operator`."""

    process: subprocess.Popen[str]
    name: str
    health: str
    log: Path
    kube: Kube
    metrics: str

    def exposed(self) -> str:
        """Return what it answers to Prometheus."""
        with urllib.request.urlopen(self.metrics, timeout=DEADLINE_S) as answer:
            return str(answer.read().decode())

    @property
    def leads(self) -> bool:
        """Return True if it runs and holds the lease. The answer of its probe may be ten seconds old."""
        lease = self.kube.run("get", "lease", "tenantry-operator", "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}")
        return self.process.poll() is None and lease.stdout == self.name

    @property
    def alive(self) -> bool:
        """Return True if it answers probes."""
        try:
            with urllib.request.urlopen(self.health, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def end(self, with_signal: signal.Signals = signal.SIGTERM, within: float = PATIENCE_S) -> int:
        """Ends it, and returns its exit code."""
        self.process.send_signal(with_signal)
        return self.process.wait(within)

    def told(self) -> str:
        return self.log.read_text()


class Platform:
    """Starts the two processes. kubeconfigs: by account, `operator` and `api`. begin: how, as forked_commands.start."""

    def __init__(
        self,
        kube: Kube,
        kubeconfigs: dict[str, Path],
        folder: Path,
        proxy: str,
        begin: Callable[..., subprocess.Popen[str]] = start,
    ) -> None:
        self.kube = kube
        self._begin = begin
        self._kubeconfigs = kubeconfigs
        self._folder = folder
        self.proxy = proxy
        self.settings: dict[str, str] = {}
        """Of each process that starts from now on."""
        self.api_url = f"http://127.0.0.1:{free_port()}"
        self.api_log = folder / "api.log"
        self.api_metrics = f"http://127.0.0.1:{free_port()}/metrics"
        self._started = 0
        self.pids: dict[str, int] = {}
        """Of the last process of each command."""

    def replica(self, folder: Path) -> Platform:
        """The same platform with another api; folder: its own."""
        return Platform(self.kube, self._kubeconfigs, folder, self.proxy, self._begin)

    @contextmanager
    def operator(self, name: str = "", *, log_format: str = "text", **settings: str) -> Iterator[Operator]:
        """Runs from its start, which may not be its lead yet, to the end of the block."""
        self._started += 1
        name = name or f"operator-{self._started}"
        health = f"127.0.0.1:{free_port()}"
        log = self._folder / f"{name}-{self._started}.log"
        metrics = f"127.0.0.1:{free_port()}"
        own = {"HEALTH": health, "METRICS": metrics, "POD": name}
        variables = {f"TENANTRY_CLUSTER__{key}": value for key, value in own.items()}
        with self._process("operator", log, "--log-format", log_format, **variables, **settings) as process:
            yield Operator(process, name, f"http://{health}/healthz", log, self.kube, f"http://{metrics}/metrics")

    @contextmanager
    def operator_of(self, code: Path) -> Iterator[Operator]:
        """One of the last release, whose code is there: with the settings that it knows, and without metrics."""
        health, log = f"127.0.0.1:{free_port()}", self._folder / "old.log"
        variables = {"PYTHONPATH": str(code), "TENANTRY_CLUSTER__HEALTH": health, "TENANTRY_CLUSTER__POD": "old"}
        with self._process("operator", log, **variables) as process:
            yield Operator(process, "old", f"http://{health}/healthz", log, self.kube, "")

    @contextmanager
    def leader(self, *, log_format: str = "text", **settings: str) -> Iterator[Operator]:
        """An operator that leads."""
        with self.operator(log_format=log_format, **settings) as operator:
            until(lambda: operator.leads, "a leader:", explained=operator.told)
            yield operator

    @contextmanager
    def api(self, **settings: str) -> Iterator[str]:
        """The facade's URL, once it answers."""
        blobs = self._folder / "blobs"
        blobs.mkdir(exist_ok=True)
        log, listen = self.api_log, self.api_url.removeprefix("http://")
        metrics = self.api_metrics.removeprefix("http://").removesuffix("/metrics")
        own = {"TENANTRY_CLUSTER__BLOBS": f"file://{blobs}", "TENANTRY_CLUSTER__METRICS": metrics}
        with self._process("api", log, "--listen", listen, **own, **settings):
            until(lambda: _answers(f"{self.api_url}/readyz"), "an answer:", explained=log.read_text)
            yield self.api_url

    @contextmanager
    def _process(self, command: str, log: Path, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
        variables = {
            "KUBECONFIG": str(self._kubeconfigs[command]),
            "TENANTRY_CLUSTER__API_URL": self.api_url,
            "TENANTRY_CLUSTER__ENGINE_PROXY": self.proxy,
            **self.settings,
            **settings,
        }
        with log.open("wb") as told:
            streams = {"stdin": subprocess.DEVNULL, "stdout": told, "stderr": told}
            process = self._begin([command, *arguments], cwd=Path.cwd(), env=environment() | variables, **streams)
            self.pids[command] = process.pid
            try:
                yield process
            finally:
                _ended(process)


def _ended(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def kubeconfigs(own: Cluster, kubectl: Run, folder: Path) -> dict[str, Path]:
    """Of the release's two accounts."""
    return {account: kubeconfig_of(account, own, kubectl, folder) for account in ("operator", "api")}


class Kube:
    """kubectl, as a platform's administrator uses it."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __call__(self, *arguments: str | Path, given: Any = None) -> str:
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *documents: dict[str, Any]) -> None:
        self("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": documents})

    def get(self, kind: str, name: str = "", namespace: str = "") -> Any:
        where = ("-n", namespace) if namespace else ("-A",) if not name else ()
        told = json.loads(self("get", kind, *filter(None, [name]), *where, "-o", "json"))
        return told if name else told["items"]

    def names(self, kind: str, namespace: str = "") -> list[str]:
        return [each["metadata"]["name"] for each in self.get(kind, namespace=namespace)]

    def ready(self, what: str, namespace: str = "", within: int = 45) -> None:
        where = ("-n", namespace) if namespace else ()
        done = self.run("wait", "--for=condition=Ready", what, *where, f"--timeout={within}s")
        assert done.returncode == 0, f"{done.stderr}\n{self.run('get', what, *where, '-o', 'yaml').stdout}"


def object_(kind: str, name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def condition(document: dict[str, Any], type_: str = "Ready") -> dict[str, Any]:
    conditions = document.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == type_), {"status": "Unknown", "reason": "", "message": ""})


def engines(kube: Kube, namespace: str) -> list[str]:
    """The namespaces of a tenant's engines."""
    labelled = kube.get("namespaces")
    return [
        each["metadata"]["name"]
        for each in labelled
        if each["metadata"].get("labels", {}).get("tenantry.dev/namespace") == namespace
    ]


def operations(kube: Kube, namespace: str, name: str) -> list[str]:
    """The actions of an object's Operations."""
    found = kube.get("operations", namespace=NAMESPACE)
    targets = ((each["spec"]["action"], each["spec"]["target"]) for each in found)
    return [action for action, target in targets if (target.get("namespace"), target["name"]) == (namespace, name)]


def token(url: str, kube: Kube) -> str:
    """Of the bootstrap SUPERUSER."""
    password = base64.b64decode(kube.get("secret", "tenantry-admin", NAMESPACE)["data"]["password"]).decode()
    return token_of(url, "admin", password)


def token_of(url: str, username: str, password: str) -> str:
    form = urllib.parse.urlencode({"username": username, "password": password}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/auth/token", form, timeout=30) as answer:
        return str(json.load(answer)["access_token"])


class Audit:
    """The API server's audit log, from where it stands now."""

    def __init__(self, own: Cluster) -> None:
        assert own.audit is not None
        self._log = own.audit
        self._seen = own.audit.stat().st_size
        self.events: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """The events of the audit log so far."""
        with self._log.open("rb") as file:
            file.seek(self._seen)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._seen += len(whole) + len(newline)
        self.events += [json.loads(line) for line in whole.splitlines()]
        return self.events

    def writes(self) -> list[str]:
        """The operator's writes, except to its lease: verb and path."""
        done = (event for event in self._of_operator() if event["verb"] in WRITES)
        return [f"{event['verb']} {event['requestURI']}" for event in done if "/leases" not in event["requestURI"]]

    def lists(self, resource: str) -> int:
        """The number of the operator's lists of that kind."""
        asked = (event for event in self._of_operator() if event["verb"] == "list")
        return sum(1 for event in asked if event["objectRef"].get("resource") == resource)

    def _of_operator(self) -> Iterator[dict[str, Any]]:
        account = f"system:serviceaccount:{NAMESPACE}:tenantry-operator"
        return (event for event in self.read() if event["user"]["username"] == account and "objectRef" in event)


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Kept:
    """An operator that is started again whenever it ends, as a kubelet does."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._stopping = threading.Event()
        self.starts = 0

    def run(self) -> None:
        """Until `stop`; in a thread of its own."""
        while not self._stopping.is_set():
            self.starts += 1
            with self._platform.operator("kept") as operator:
                while operator.process.poll() is None and not self._stopping.wait(waiting.AGAIN_S):
                    pass
            self._stopping.wait(1)

    def stop(self) -> None:
        self._stopping.set()


@contextmanager
def kept(platform: Platform) -> Iterator[Kept]:
    """An operator that is kept running until the end of the block."""
    keeper = Kept(platform)
    thread = threading.Thread(target=keeper.run, name="keeper")
    thread.start()
    try:
        yield keeper
    finally:
        keeper.stop()
        thread.join()
