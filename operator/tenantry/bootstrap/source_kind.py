"""How the repositories of Sources are opened: as the Source says, with the rights of whose namespace it is in."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tenantry.adapters.sources.documents import Admit
from tenantry.adapters.sources.git.command import GitLimits
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import GitUrl, git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.sops import Sops
from tenantry.bootstrap.seat import now
from tenantry.engine.packages.build import build
from tenantry.hosts.source_following import Opened
from tenantry.kinds.admission import Admission
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import CREDENTIAL_LABEL, Document
from tenantry.model.syncing import SyncOrder
from tenantry.model.verdicts import Invalid, Problem
from tenantry.ports import Packages, Secrets
from tenantry.runtime.cache import Cache
from tenantry.settings import Settings

TENANT_KINDS = frozenset({"Secret", "Environment", "Package", "App", "Identity", "IdentityProvider", "Source"})
"""What a tenant's ADMIN may declare in its namespace."""


class BoundPackages(PackageFiles):
    """Packages of a Source: whose a namespace is, the platform tells."""

    def __init__(self, packages: Packages, work: Path, cache: Cache) -> None:
        super().__init__(packages, build, work)
        self._cache = cache

    async def made(self, package: Document, target: Path, tenants: Mapping[str, str]) -> Document:
        return await super().made(package, target, {**tenants, **self._bound()})

    def _bound(self) -> dict[str, str]:
        tenants = (tenant for tenant in self._cache.resources(Tenant.KIND) if isinstance(tenant, Tenant))
        return {tenant.status.namespace.name: tenant.metadata.name for tenant in tenants if tenant.status.namespace}


@dataclass(frozen=True)
class SourceRepositories:
    """hosts.source_following.Repositories. folder: its own, all in it can be fetched again; work: where packages are built."""

    folder: Path
    work: Path
    settings: Settings
    admission: Admission
    packages: Packages
    secrets: Secrets
    cache: Cache

    async def open(self, order: SyncOrder) -> Opened:
        url = _url(order)
        files = BoundPackages(self.packages, self.work, self.cache)
        git = GitSource(url, self.folder / order.uid, self._admit(order), files, now, self._settings(order))
        return Opened(git.read, git.changes, git.applied)

    async def discard(self, uid: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self.folder / uid, ignore_errors=True)

    def _settings(self, order: SyncOrder) -> GitSettings:
        git = self.settings.git
        limits = GitLimits(git.timeout.total_seconds(), git.size, git.depth)
        # The platform's keys open nothing for a tenant: it may have copied what they seal from elsewhere.
        sops = Sops() if order.tenant else Sops(self.settings.sops.key_file)
        return GitSettings(order.interval_s, limits, sops=sops, settled=order.settled)

    def _admit(self, order: SyncOrder) -> Admit:
        def admit(document: Document) -> Document:
            admitted = self.admission.admit(document, None)
            problem = _not_labelled(admitted) or (_foreign(admitted, order.source.namespace) if order.tenant else None)
            if problem is not None:
                raise Invalid((problem,))
            return admitted

        return admit


def _url(order: SyncOrder) -> GitUrl:
    try:
        return git_url(order.url, order.revision, order.path)
    except ValueError as error:
        raise Invalid((Problem("spec.url", str(error)),)) from None


def _not_labelled(document: Document) -> Problem | None:
    """Secrets that are nobody's credential are none of our business: they could neither be found again nor pruned."""
    if document["kind"] != "Secret" or CREDENTIAL_LABEL in (document["metadata"].get("labels") or {}):
        return None
    return Problem("metadata.labels", f"a Secret of a Source carries the label {CREDENTIAL_LABEL}")


def _foreign(document: Document, namespace: str) -> Problem | None:
    """Why a tenant's Source may not declare it."""
    kind = document["kind"]
    if kind not in TENANT_KINDS:
        return Problem("kind", f"a Source in a tenant's namespace declares no {kind}: only what the tenant's ADMIN may")
    if document["metadata"].get("namespace") != namespace:
        return Problem("metadata.namespace", f"a Source in {namespace} applies there only")
    if kind == "Package" and document["spec"].get("shared"):
        return Problem("spec.shared", "is for the platform's own Sources")
    return None
