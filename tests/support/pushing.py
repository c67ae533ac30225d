"""Packages pushed to the facade of a cluster."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.cluster.running import Kube, Platform, token
from tests.scenario.cli import tenantry

SHOP = """
apiVersion: tenantry.dev/app/v1
id: shop
name: Shop
author: Example Ltd
version: 1.0.0
tables:
  - name: items
    primaryKey: [id]
    columns:
      - {name: id, type: integer, generated: true}
"""


def push(platform: Platform, kube: Kube, folder: Path, manifest: str = SHOP) -> str:
    """Builds a package, the shop's or another of the same name, and stores it by REST. Returns its sha256."""
    source = folder / "shop"
    source.mkdir()
    (source / "app.yaml").write_text(manifest)
    built = tenantry("package", "build", source, "-o", folder / "shop.zip", cwd=folder)
    assert built.returncode == 0, built.stderr
    pushed = tenantry(
        *("package", "push", folder / "shop.zip", "--server", platform.api_url, "--token", token(platform.api_url, kube)),
        cwd=folder,
    )
    assert pushed.returncode == 0, pushed.stderr
    return hashlib.sha256((folder / "shop.zip").read_bytes()).hexdigest()
