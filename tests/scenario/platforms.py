"""A small platform in a folder: a tenant, an environment, and an app without tables."""

from __future__ import annotations

from pathlib import Path

PLATFORM = """
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {name: eu}
---
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: acme}
spec: {displayName: Acme}
---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: dev, namespace: tenant-acme}
spec: {region: eu, engine: {}}
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
MANIFEST = "apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Example\nversion: 1.0.0\n"


def declare(folder: Path) -> Path:
    """The source folder, written below `folder`."""
    source = folder / "platform"
    (source / "packages" / "crm").mkdir(parents=True)
    (source / "platform.yaml").write_text(PLATFORM)
    (source / "packages" / "crm" / "app.yaml").write_text(MANIFEST)
    return source
