"""Packages that a source builds only to be planned: they go into its bundle, and into no store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tenantry.adapters.blobs import FolderBlobs
from tenantry.model.facts import PackageFacts


@dataclass
class KeptPackages:
    """Packages that a source builds, kept in a folder. files: by sha256."""

    scratch: FolderBlobs
    files: dict[str, Path] = field(default_factory=dict)

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self.scratch.inspect(tenant, sha256)

    async def put(self, tenant: str, package: Path) -> PackageFacts:
        facts = await self.scratch.put(tenant, package)
        self.files[facts.sha256] = await self.scratch.fetch(tenant, facts.sha256)
        return facts
