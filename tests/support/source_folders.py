"""Folders of YAML, and the packages that they name."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Invalid, NotFound, Problem

TENANT = "apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {name: NAME}\n"
PACKAGE = """\
apiVersion: tenantry.dev/v1alpha1
kind: Package
metadata: {name: crm, namespace: tenant-acme}
spec:
  app: crm
  version: 1.0.0
  source: {path: PATH}
"""


class StoredPackages:
    """Packages that keeps digests alone: what is stored is what was put."""

    def __init__(self) -> None:
        self.put_for: list[str] = []
        self._facts: dict[tuple[str, str], PackageFacts] = {}

    async def put(self, tenant: str, package: Path) -> PackageFacts:
        data = await asyncio.to_thread(package.read_bytes)
        if data.startswith(b"broken"):
            raise Invalid((Problem("app.yaml", "is missing"),))
        sha256 = hashlib.sha256(data).hexdigest()
        facts = PackageFacts("crm", "1.0.0", "CRM", "", sha256, len(data), 0, False)
        self.put_for.append(tenant)
        self._facts[tenant, sha256] = facts
        return facts

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return self._facts.get((tenant, sha256))

    async def fetch(self, tenant: str, sha256: str) -> Path:
        raise NotFound(sha256)

    async def remove(self, tenant: str, sha256: str) -> None:
        self._facts.pop((tenant, sha256), None)

    async def remove_all(self, tenant: str) -> None:
        self._facts = {key: facts for key, facts in self._facts.items() if key[0] != tenant}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tenant(name: str) -> str:
    return TENANT.replace("NAME", name)
