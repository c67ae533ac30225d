"""The engine as the pod of an environment: whose tokens and password it takes is in mounted files, which change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tenantry.adapters.keys import KeyRing
from tests.scenario.cli import serving

FACADE = "http://api/engines/e1/api/v1"


class Pod:
    """The mounted files, and the engine that reads them."""

    def __init__(self, folder: Path) -> None:
        self.jwks, self.password = folder / "jwks.json", folder / "password"
        self.keys = KeyRing(folder / "keys", "tenantry")
        self.publish()
        self.password.write_text("the first password\n")
        self.url = ""

    def publish(self) -> None:
        self.jwks.write_text(json.dumps(self.keys.jwks()))

    def operator(self, audience: str = "engine:e1") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys.sign({'sub': 'operator', 'aud': audience}, timedelta(minutes=1))}"}

    def status(self, method: str, path: str, **options: object) -> int:
        return httpx.request(method, f"{self.url}{path}", **options).status_code  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pod")
    pod = Pod(folder)
    variables = {
        "TENANTRY_MANAGED__UID": "e1",
        "TENANTRY_MANAGED__FACADE_URL": FACADE,
        "TENANTRY_MANAGED__JWKS": str(pod.jwks),
        "TENANTRY_MANAGED__ADMIN_PASSWORD": str(pod.password),
    }
    with serving("engine", "--data", folder / "data", "--listen", "127.0.0.1:0", cwd=folder, **variables) as running:
        pod.url = running.url
        yield pod


@pytest.mark.slow
def test_it_is_alive_and_ready(pod: Pod) -> None:
    assert (pod.status("GET", "/healthz"), pod.status("GET", "/readyz")) == (200, 200)


@pytest.mark.parametrize(("audience", "status"), [("engine:e1", 200), ("engine:e2", 401), ("tenantry", 401)])
def test_the_operator_comes_with_a_token_for_this_engine(pod: Pod, audience: str, status: int) -> None:
    assert pod.status("GET", "/api/v1/admin/apps", headers=pod.operator(audience)) == status


def test_admin_reads_and_is_told_where_to_write(pod: Pod) -> None:
    admin = ("admin", pod.password.read_text().strip())
    assert pod.status("GET", "/api/v1/admin/apps", auth=admin) == 200
    answer = httpx.post(f"{pod.url}/api/v1/admin/identities", auth=admin, json={"username": "ann", "password": "long enough"})
    assert (answer.status_code, FACADE in answer.json()["error"]) == (400, True)


def test_a_password_that_changes_in_its_file_is_taken_over(pod: Pod) -> None:
    before = ("admin", pod.password.read_text().strip())
    pod.password.write_text("the second password\n")
    assert pod.status("GET", "/api/v1/admin/apps", auth=("admin", "the second password")) == 200
    assert pod.status("GET", "/api/v1/admin/apps", auth=before) == 401


def test_a_key_that_comes_into_the_file_is_taken_over(pod: Pod) -> None:
    pod.keys.rotate()
    assert pod.status("GET", "/api/v1/admin/apps", headers=pod.operator()) == 401
    pod.publish()
    assert pod.status("GET", "/api/v1/admin/apps", headers=pod.operator()) == 200
