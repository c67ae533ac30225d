"""Processes show their numbers at an address of the operator's choice, and nowhere else; both hosts, as processes."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import httpx
import pytest

from tests.scenario.cli import called, serving, until
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
HOSTS = {
    "engine": ("engine", "--data", "data", "--listen", "127.0.0.1:0"),
    "up": ("up", str(ROOT / "examples" / "02-music-company"), "--listen", "127.0.0.1:0"),
}
ENGINES = {"engine": ("",), "up": ("/e/eu/production", "/e/americas/production")}
NAMES = ("europe", "eu", "americas", "production", "music", "ada", "nobody")
"""Of tenants, environments, apps and users, which no label has."""


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_requests_of_all_engines_are_counted_at_the_address_for_metrics(host: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with serving(*HOSTS[host], cwd=tmp_path, TENANTRY_METRICS=address) as running:
        url = running.url.rstrip("/")
        for engine in ENGINES[host]:
            assert httpx.get(f"{url}{engine}/api/v1/data/music/songs", auth=("nobody", "guess")).status_code == 401
            assert httpx.get(f"{url}{engine}/api/v1/admin/apps", auth=("ada", "guess")).status_code == 401
        told = httpx.get(f"http://{address}/metrics").text
        for operation in ("read", "admin"):
            line = f'tenantry_engine_requests_total{{code="4xx",operation="{operation}"}} {float(len(ENGINES[host]))}'
            assert line in told
        labels = " ".join(re.findall(r"^tenantry_\w+\{(.*)\}", told, re.MULTILINE))
        assert not [name for name in NAMES if name in labels]
        until(lambda: 'tenantry_engine_bytes{of="database"}' in httpx.get(f"http://{address}/metrics").text)
        assert httpx.get(f"http://{address}/healthz").status_code == 404


@pytest.mark.slow
def test_up_shows_the_numbers_of_the_platform_beside_those_of_engines(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = (*HOSTS["up"], "--metrics-listen", address)
    with serving(*command, cwd=tmp_path) as running:
        url = running.url.rstrip("/")
        assert httpx.get(f"{url}/api/v1/tenants").status_code == 401
        told = httpx.get(f"http://{address}/metrics").text
        assert 'tenantry_requests_total{code="401",method="GET",route="/api/v1/tenants"} 1.0' in told
        assert "tenantry_ready{" in told
        assert "tenantry_engine_requests_total{" in told
        assert httpx.get(f"{url}/metrics").status_code == 404


def test_a_taken_address_is_named_with_the_setting_that_chooses_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = called(*HOSTS["up"], "--metrics-listen", f"127.0.0.1:{port}", cwd=tmp_path)
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is in use; choose another with TENANTRY_METRICS=127.0.0.1:PORT" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
def test_the_address_of_users_shows_no_load_of_engines(host: str, tmp_path: Path) -> None:
    with serving(*HOSTS[host], cwd=tmp_path) as running:
        for engine in ("", *ENGINES[host]):
            assert "tenantry_engine_" not in httpx.get(f"{running.url.rstrip('/')}{engine}/metrics").text
