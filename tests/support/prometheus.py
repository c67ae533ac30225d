"""A real Prometheus that scrapes processes each second, and reads the chart's alerts in compressed time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.scenario.cli import until
from tests.scenario.tools import lacking
from tests.support.ports import free_port

NOT_READY = "not ready"
ALERTS = Path(__file__).parents[2] / "charts" / "tenantry" / "files" / "alerts.yaml"
SOONER = {
    "> 3600": "> 2",
    "> 1800": "> 2",
    "[5m]": "[10s]",
    "[10m]": "[10s]",
    "[30m]": "[10s]",
    "[1h]": "[10s]",
    "[6h]": "[10s]",
    "> 30": "> 0.05",
    'le="300.0"': 'le="0.1"',
}
"""Changes of expressions for the compressed time: ages in seconds, windows, and the bounds of what is slow."""


def compressed() -> dict[str, Any]:
    """Return the rules of the chart in compressed time."""
    body: dict[str, Any] = yaml.safe_load(ALERTS.read_text())
    for rule in body["groups"][0]["rules"]:
        rule["for"] = "0s"
        for given, sooner in SOONER.items():
            rule["expr"] = rule["expr"].replace(given, sooner)
    body["groups"][0]["interval"] = "1s"
    return body


@dataclass(frozen=True)
class Prometheus:
    """A server at an address. targets: how many it scrapes."""

    address: str
    targets: int

    def firing(self) -> set[str]:
        """The alerts that fire now; `NOT_READY` where it does not answer."""
        try:
            answer = httpx.get(f"http://{self.address}/api/v1/alerts").json()
        except (httpx.TransportError, ValueError):  # it answers text until it is ready
            return {NOT_READY}
        return {each["labels"]["alertname"] for each in answer["data"]["alerts"] if each["state"] == "firing"}

    def cleared(self, *alerts: str) -> bool:
        """Return True when it answers, and none of these fires."""
        return not {*alerts, NOT_READY} & self.firing()

    def numbers(self, expression: str) -> list[str]:
        """Return what it answers now to an expression of a dashboard or an alert. Raises AssertionError if it is refused."""
        sent = expression.replace("$__rate_interval", "1m").replace("$namespace", ".*")
        answer = httpx.get(f"http://{self.address}/api/v1/query", params={"query": sent}).json()
        assert answer["status"] == "success", answer
        return [each["value"][1] for each in answer["data"]["result"] if each["value"][1] != "NaN"]

    def scrapes(self) -> bool:
        """Return True when it has samples of all targets."""
        try:
            return self.numbers("sum(up)") == [str(self.targets)]
        except (httpx.TransportError, ValueError):
            return False


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """Run until the end of the block. targets: `HOST:PORT` by job. Skips where Prometheus is not installed."""
    if shutil.which("prometheus") is None:
        lacking("prometheus is not installed")
    scraped = [{"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()]
    every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    rules, config, data = folder / "alerts.yaml", folder / "prometheus.yml", folder / "data"
    rules.write_text(yaml.safe_dump(compressed()))
    config.write_text(json.dumps({"global": every, "rule_files": [str(rules)], "scrape_configs": scraped}))
    server = Prometheus(f"127.0.0.1:{free_port()}", len(targets))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={server.address}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(server.cleared)
            yield server
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def exposing(numbers: Callable[[], str]) -> Iterator[str]:
    """Serve numbers in Prometheus' format at the yielded `HOST:PORT`, as they are at each scrape."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(ConnectionError):  # a scrape has a time limit
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(numbers().encode())

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serves = threading.Thread(target=server.serve_forever, daemon=True)
        serves.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serves.join()


VOLUME = 1 << 30
"""Bytes of a volume for which no file system is mounted."""


@contextmanager
def kubelet_of(folder: Path) -> Iterator[str]:
    """A stand-in for a kubelet at the yielded `HOST:PORT`. Its numbers are those of the file system mounted at the folder.

    Where none is, the volume has room: the disk of the machine may be nearly full.
    """

    def numbers() -> str:
        disk = os.statvfs(folder) if folder.is_mount() else None
        sizes = {"available": VOLUME - 1, "capacity": VOLUME}
        if disk is not None:
            sizes = {"available": disk.f_bavail * disk.f_frsize, "capacity": disk.f_blocks * disk.f_frsize}
        labels = '{namespace="engines",persistentvolumeclaim="engine"}'
        return "".join(f"kubelet_volume_stats_{name}_bytes{labels} {size}\n" for name, size in sizes.items())

    with exposing(numbers) as address:
        yield address
