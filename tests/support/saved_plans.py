"""Sources whose plans are saved or sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tenantry.cli.clients.planning_over_rest import read_source
from tenantry.rest.plan_bundle import write_bundle
from tests.scenario import platforms

PLATFORM = f"""{platforms.PLATFORM}---
apiVersion: v1
kind: Secret
metadata: {{name: ann, namespace: tenant-acme, labels: {{tenantry.dev/credential: identity}}}}
stringData: {{password: hunter22}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Identity
metadata: {{name: ann, namespace: tenant-acme}}
spec: {{environment: dev, username: ann, passwordSecretRef: {{name: ann}}}}
"""


def source_in(folder: Path, text: str = PLATFORM) -> Path:
    package = folder / "packages" / "crm"
    package.mkdir(parents=True)
    (package / "app.yaml").write_text(platforms.MANIFEST)
    (folder / "platform.yaml").write_text(text)
    return folder


ENVIRONMENT = """
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: NAME, namespace: tenant-TENANT}
spec: {region: here}
"""


async def bundle_of(source: Path | str, work: Path, name: str = "default") -> bytes:
    await asyncio.to_thread(work.mkdir)
    tree, packages, _ = await read_source(str(source), work)
    assert tree.problems == ()
    await asyncio.to_thread(write_bundle, work / "bundle.zip", tree, name, packages)
    return await asyncio.to_thread((work / "bundle.zip").read_bytes)
