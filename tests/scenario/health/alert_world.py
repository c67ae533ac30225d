"""A platform under a real Prometheus that reads the chart's alerts in compressed time."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.scenario.cli import called, serving, until
from tests.support.ports import free_port
from tests.support.prometheus import Prometheus, kubelet_of, prometheus

API = "apiVersion: tenantry.dev/v1alpha1\n"
PLATFORM = f"""
{API}kind: Region
metadata: {{name: eu}}
spec: {{}}
---
{API}kind: Tenant
metadata: {{name: acme}}
spec: {{displayName: Acme}}
"""
USED = f"""
{API}kind: Environment
metadata: {{name: dev, namespace: tenant-acme}}
spec: {{region: eu}}
---
apiVersion: v1
kind: Secret
metadata: {{name: ann, namespace: tenant-acme, labels: {{tenantry.dev/credential: identity}}}}
stringData: {{password: long enough}}
---
{API}kind: Identity
metadata: {{name: ann, namespace: tenant-acme}}
spec: {{environment: dev, username: ann, passwordSecretRef: {{name: ann, key: password}}}}
"""
"""An environment that has been written to: it has a database."""
REGION = f"{API}kind: Region\nmetadata: {{name: r%s}}\nspec: {{}}\n"


@dataclass
class World:
    """A platform under Prometheus. folder: with its source, which nobody edits."""

    folder: Path
    resync: str
    address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    metrics: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    stack: ExitStack = field(default_factory=ExitStack)
    prometheus: Prometheus = field(init=False)

    def start(self) -> None:
        variables = {"TENANTRY_RESYNC": self.resync, "TENANTRY_WORKERS": "1", "TENANTRY_METRICS": self.metrics}
        self.running = self.stack.enter_context(serving("up", "platform", "--listen", self.address, cwd=self.folder, **variables))

    def stop(self) -> None:
        self.running.process.kill()
        self.running.process.wait(60)

    def apply(self, text: str) -> None:
        (self.folder / "applied.yaml").write_text(text)
        done = called("apply", "-f", "applied.yaml", "--yes", cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *arguments: str) -> str:
        done = called(*arguments, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def client(self) -> httpx.Client:
        """Return a client of REST with the rights of the SUPERUSER."""
        headers = {"Authorization": f"Bearer {self.run('token').strip()}"}
        return httpx.Client(base_url=f"http://{self.address}/api/v1", headers=headers, timeout=60)

    def read_on(self, path: str) -> None:
        """Read a path of REST over and over beside the test, until the end of the world."""
        ended, client = threading.Event(), self.client()

        def work() -> None:
            with client:
                while not ended.wait(0.05):
                    with suppress(httpx.TransportError):
                        client.get(path)

        reader = threading.Thread(target=work, name="reader")
        reader.start()
        self.stack.callback(reader.join)
        self.stack.callback(ended.set)

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        return self.prometheus.firing()

    def ready(self, kind: str, name: str) -> bool:
        """Return True if the object of the tenant is Ready."""
        found = json.loads(self.run("get", kind, name, "-n", "tenant-acme", "-o", "json"))
        return any((each["type"], each["status"]) == ("Ready", "True") for each in found["status"].get("conditions", ()))

    def passes(self, kind: str) -> float:
        """Return how many passes over objects of a kind have succeeded."""
        sought = f'reconcile_total{{controller="{kind}",result="success"}}'
        lines = httpx.get(f"http://{self.metrics}/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if sought in line)

    @property
    def engines(self) -> Path:
        """The folder of all engines."""
        return self.folder / ".tenantry" / "engines"

    def database(self) -> Path:
        """The database of the environment that is used."""
        until(lambda: len(list(self.folder.glob(".tenantry/engines/*/engine.db"))) == 1)
        (found,) = self.folder.glob(".tenantry/engines/*/engine.db")
        return found


@contextmanager
def watched(folder: Path, resync: str, *, volume: bool = False) -> Iterator[World]:
    """A platform and its Prometheus, when the latter has scraped all, and nothing fires. volume: engines have a small one."""
    (folder / "platform").mkdir()
    (folder / "platform" / "platform.yaml").write_text(PLATFORM)
    world = World(folder, resync)
    if volume:
        world.stack.enter_context(mounted(world.engines))
    targets = dict.fromkeys(("tenantry-operator", "tenantry-api", "tenantry-engine"), world.metrics)
    with world.stack, kubelet_of(world.engines) as kubelet:
        world.start()
        with prometheus(folder, targets | {"kubelet": kubelet}) as world.prometheus:
            until(lambda: world.prometheus.scrapes() and world.firing() == set())
            yield world


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """A file system of 32 MiB at a folder, until the end of the block. Skips where none can be mounted."""
    folder.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
