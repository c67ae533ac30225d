"""Dashboards of the chart: written from the list of panels, and none of a running platform's panels is empty."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.kinds.registry import KINDS
from tests.docs import dashboards
from tests.scenario.cli import called, serving, until
from tests.scenario.tools import lacking
from tests.support.kube_state_metrics import exposed
from tests.support.ports import free_port
from tests.support.prometheus import exposing
from tests.support.runbooks import expressions

ROOT = Path(__file__).parents[2]
OF_A_CLUSTER = ("leader_election_master_status", "rest_client_requests_total", "kubelet_volume_stats")
"""Numbers of the operator alone, which `up` has not: tests/cluster/test_operator.py sees them; and those of the kubelet."""
PANELS = [panel for board in dashboards.BOARDS.values() for panel in board.panels]


@pytest.mark.parametrize("name", dashboards.BOARDS)
def test_a_file_is_as_its_list_of_panels_says(name: str) -> None:
    assert (dashboards.FOLDER / f"{name}.json").read_text() == dashboards.board(name), "run `make crds`"


@pytest.mark.parametrize("name", dashboards.BOARDS)
def test_no_panel_lies_over_another(name: str) -> None:
    places = [
        (column, row)
        for panel in json.loads(dashboards.board(name))["panels"]
        for at in (panel["gridPos"],)
        for column in range(at["x"], at["x"] + at["w"])
        for row in range(at["y"], at["y"] + at["h"])
    ]
    assert len(places) == len(set(places))
    assert max(column for column, _ in places) < 24


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A Prometheus that has followed a platform through installs, a refusal, a deletion and requests."""
    if shutil.which("prometheus") is None:
        lacking("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    metrics = f"127.0.0.1:{free_port()}"
    command = ("up", ROOT / "examples" / "02-music-company", "--listen", "127.0.0.1:0", "--metrics-listen", metrics)
    shown = [""]
    with serving(*command, cwd=folder) as platform, exposing(lambda: shown[0]) as objects:
        rest = f"{platform.url.rstrip('/')}/api/v1/tenants"
        assert httpx.get(rest).status_code == 401  # a series begins with its first request, and a rate needs two samples
        scraped = [{"job_name": "tenantry", "scrape_interval": "1s", "static_configs": [{"targets": [metrics, objects]}]}]
        (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": scraped}))
        address = f"127.0.0.1:{free_port()}"
        serve = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([*serve, f"--web.listen-address={address}"], stdout=log, stderr=log)
            try:
                with httpx.Client(base_url=f"http://{address}") as client:
                    until(lambda: _scraped(client))
                    for name in ("europe", "americas"):
                        assert called("reconcile", f"tenant/{name}", cwd=folder).returncode == 0
                    _trouble(folder)
                    shown[0] = exposed(_objects(folder))
                    for _ in range(3):
                        assert httpx.get(rest).status_code == 401
                        answer = httpx.get(f"{platform.url.rstrip('/')}/e/eu/production/api/v1/data/music/songs")
                        assert answer.status_code == 401
                    yield client
            finally:
                process.terminate()
                process.wait(60)


TENANT = """
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: later}
spec: {displayName: Later}
"""
TROUBLE = """
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: dev, namespace: tenant-later}
spec: {region: ca-west, driftPolicy: Warn}
---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: lost, namespace: tenant-later}
spec: {region: nowhere}
---
apiVersion: v1
kind: Secret
metadata: {name: ann, namespace: tenant-later, labels: {tenantry.dev/credential: identity}}
stringData: {password: long enough}
---
apiVersion: tenantry.dev/v1alpha1
kind: Identity
metadata: {name: ann, namespace: tenant-later}
spec: {environment: dev, username: ann, passwordSecretRef: {name: ann, key: password}}
"""


def _trouble(folder: Path) -> None:
    """Make an object that is not Ready, one that is suspended, and one that differs from its declaration."""
    for text in (TENANT, TROUBLE):
        (folder / "more.yaml").write_text(text)
        _run(folder, "apply", "-f", "more.yaml", "--yes")
    until(lambda: _holds(folder, "identity", "ann", "Ready"))
    (environment,) = _get(folder, "environment", "dev", "-n", "tenant-later")
    with closing(sqlite3.connect(folder / ".tenantry" / "engines" / environment["metadata"]["uid"] / "engine.db")) as database:
        database.execute("DELETE FROM _tenantry_identities WHERE username = 'ann'")
        database.commit()
    _run(folder, "reconcile", "identity/tenant-later/ann")
    until(lambda: _holds(folder, "identity", "ann", "Drifted"))
    _run(folder, "suspend", "environment/tenant-later/lost")
    until(lambda: _holds(folder, "environment", "lost", "Suspended"))


def _run(folder: Path, *arguments: str) -> str:
    done = called(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _get(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    found = json.loads(_run(folder, "get", *arguments, "-o", "json"))
    return found if isinstance(found, list) else [found]


def _holds(folder: Path, kind: str, name: str, condition: str) -> bool:
    (found,) = _get(folder, kind, name, "-n", "tenant-later")
    return (condition, "True") in {(each["type"], each["status"]) for each in found.get("status", {}).get("conditions", ())}


def _objects(folder: Path) -> list[dict[str, Any]]:
    """Return all objects of the platform."""
    return [each for kind in KINDS for each in _get(folder, kind, "--all-namespaces")]


def _scraped(client: httpx.Client) -> bool:
    try:
        return bool(found(client, 'count_over_time(up{job="tenantry"}[1m]) > 3'))
    except (httpx.TransportError, json.JSONDecodeError):  # it answers text until it is ready
        return False


def found(client: httpx.Client, expression: str) -> list[str]:
    """Return the numbers that Prometheus answers now."""
    answer = client.get(
        "/api/v1/query", params={"query": expression.replace("$__rate_interval", "1m").replace("$namespace", ".*")}
    ).json()
    assert answer["status"] == "success", answer
    return [each["value"][1] for each in answer["data"]["result"] if each["value"][1] != "NaN"]


@pytest.mark.slow
def test_each_panel_shows_something(prometheus: httpx.Client) -> None:
    """Without the zero that a panel shows where it has found nothing."""
    asked = {each.expression.removesuffix(" or vector(0)") for each in PANELS}
    empty = {each for each in asked if not any(name in each for name in OF_A_CLUSTER)}

    def all_show() -> bool:
        empty.difference_update([each for each in empty if found(prometheus, each)])
        return not empty

    try:
        until(all_show)
    except AssertionError:
        assert empty == set()


@pytest.mark.slow
@pytest.mark.parametrize("expression", expressions().values(), ids=expressions())
def test_an_expression_of_a_runbook_shows_something(expression: str, prometheus: httpx.Client) -> None:
    until(lambda: found(prometheus, expression))
