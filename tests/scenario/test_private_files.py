"""What a process of the platform writes is for the eyes of its owner only, whatever umask it was started with."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.scenario.cli import COMMAND, environment

PLATFORM = """
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {name: eu}
---
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: acme}
---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: dev, namespace: tenant-acme}
spec: {region: eu}
---
apiVersion: tenantry.dev/v1alpha1
kind: Package
metadata: {name: crm-1-0-0, namespace: tenant-acme}
spec: {app: crm, version: "1.0.0", source: {path: packages/crm}}
---
apiVersion: tenantry.dev/v1alpha1
kind: App
metadata: {name: dev.crm, namespace: tenant-acme}
spec: {environment: dev, app: crm, version: "1.0.0"}
"""
MANIFEST = "apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nversion: 1.0.0\n"


def run(cwd: Path, *arguments: str) -> None:
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120, check=False, umask=0
    )
    assert ended.returncode == 0, ended.stderr


def open_to_others(folder: Path) -> list[str]:
    return [str(each) for each in (folder, *folder.rglob("*")) if not each.is_symlink() and each.lstat().st_mode & 0o077]


def test_nothing_that_a_command_writes_can_be_read_by_others(tmp_path: Path) -> None:
    package = tmp_path / "platform" / "packages" / "crm"
    package.mkdir(parents=True)
    (package / "app.yaml").write_text(MANIFEST)
    (tmp_path / "platform" / "all.yaml").write_text(PLATFORM)
    run(tmp_path, "up", "platform", "--state", "state", "--once")
    assert len(list((tmp_path / "state").rglob("*"))) > 10
    assert open_to_others(tmp_path / "state") == []
    run(tmp_path, "crds", "--out", "crds")
    assert open_to_others(tmp_path / "crds") == []
