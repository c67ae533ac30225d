"""`doctor` names the next step of each finding, and its bundle holds states and logs but no secret and no declaration."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.scenario.cli import called, serving, until
from tests.support.generated_requests import shapes

CANARY = "canary-of-a-password-q7x"
SETTING = "/keys/canary-of-a-setting-q7x"
PLATFORM = f"""
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {{name: eu}}
spec: {{displayName: Europe}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {{name: acme}}
spec: {{displayName: Acme}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {{name: dev, namespace: tenant-acme}}
spec: {{region: eu, displayName: Canary-Of-A-Name}}
---
apiVersion: v1
kind: Secret
metadata: {{name: ann, namespace: tenant-acme, labels: {{tenantry.dev/credential: identity}}}}
stringData: {{password: {CANARY}}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Identity
metadata: {{name: ann, namespace: tenant-acme}}
spec: {{environment: dev, username: ann, passwordSecretRef: {{name: ann, key: password}}}}
---
apiVersion: tenantry.dev/v1alpha1
kind: App
metadata: {{name: dev.crm, namespace: tenant-acme}}
spec: {{environment: dev, app: crm, version: "1.0.0"}}
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The bundle of a running platform with an App that lacks its Package; beside it what was printed."""
    (tmp_path / "platform").mkdir()
    (tmp_path / "platform" / "platform.yaml").write_text(PLATFORM)
    with serving("up", "platform", "--listen", "127.0.0.1:0", cwd=tmp_path):
        until(lambda: "True" in called("get", "identity", "ann", "-n", "tenant-acme", cwd=tmp_path).stdout)
        done = called("doctor", "--bundle", "report.zip", cwd=tmp_path, TENANTRY_SOPS__AGE_KEY_FILE=SETTING)
        assert (done.returncode, done.stderr) == (1, "")
        (tmp_path / "printed").write_text(done.stdout)
        again = called("doctor", "--bundle", "report.zip", cwd=tmp_path)
        assert (again.returncode, again.stderr) == (2, "--bundle report.zip: exists; name a new file\n")
    return tmp_path / "report.zip"


@pytest.mark.slow
def test_each_finding_has_a_next_step_and_the_bundle_has_what_a_report_needs(bundle: Path) -> None:
    printed = (bundle.parent / "printed").read_text().splitlines()
    wrong = next(number for number, line in enumerate(printed) if "App/tenant-acme/dev.crm" in line)
    assert printed[wrong].startswith("WRONG objects: ")
    assert printed[wrong + 1] == "      next: tenantry describe app/tenant-acme/dev.crm"
    assert bundle.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(bundle) as archive:
        names = set(archive.namelist())
        assert {"findings.txt", "process.json", "platform.json", "objects/App.json", "objects/Environment.json"} <= names
        assert any(name.startswith("operations/") and name.endswith(".log") for name in names)
        (app,) = json.loads(archive.read("objects/App.json"))
        assert app["status"]["conditions"][0]["status"] == "False"
        assert json.loads(archive.read("process.json"))["settings"] == ["TENANTRY_SOPS__AGE_KEY_FILE"]
        content = b"\0".join(archive.read(name) for name in names)
    for canary in (CANARY, "canary-of-a-setting-q7x", "Canary-Of-A-Name"):
        assert not any(shape in content for shape in shapes(canary))


def test_without_a_platform_it_looks_at_the_machine(tmp_path: Path) -> None:
    done = called("doctor", "--bundle", "report.zip", cwd=tmp_path, TENANTRY_LISTNE="x")
    assert done.returncode == 1
    assert "WRONG settings: TENANTRY_LISTNE: there is no such setting\n      next: tenantry check --settings\n" in done.stdout
    with zipfile.ZipFile(tmp_path / "report.zip") as archive:
        assert set(archive.namelist()) == {"findings.txt", "process.json"}


@pytest.mark.slow
def test_a_check_before_an_upgrade_says_what_stops_and_what_the_way_back_needs(tmp_path: Path) -> None:
    (tmp_path / "platform").mkdir()
    (tmp_path / "platform" / "platform.yaml").write_text(PLATFORM.partition("---\napiVersion: v1\n")[0])
    assert "upgrade: " not in called("check", "--pre-upgrade", cwd=tmp_path).stdout, "there is nothing to upgrade"
    with serving("up", "platform", "--listen", "127.0.0.1:0", cwd=tmp_path):
        until(lambda: "True" in called("get", "environments", "-n", "tenant-acme", cwd=tmp_path).stdout)
        done = called("check", "--pre-upgrade", cwd=tmp_path)
    assert "ok    upgrade: 1 engine to stop with `tenantry up`, and to serve again when it has started\n" in done.stdout
    assert "ok    upgrade: a copy of the state folder needs " in done.stdout
    assert done.returncode == 0, done.stdout
    assert "upgrade: 1 engine to stop" in called("check", "--pre-upgrade", cwd=tmp_path).stdout, "also while nothing runs"
