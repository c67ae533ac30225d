"""Packages that the platform offers to every tenant, as the engine interface shows and installs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from tenantry.api.engine.engine_request import EngineRequest
from tenantry.kinds.package.spec import Package
from tenantry.model.facts import EngineApp, PackageFacts
from tenantry.model.resource import SYSTEM_NAMESPACE

SHARED = ""
"""The holder of shared bytes in the package store."""


class SharedPackages:
    """The shared packages that could be installed now: their bytes are there and they are not being deleted."""

    def __init__(self, request: EngineRequest) -> None:
        self._request = request

    def beside(self, held: Iterable[EngineApp]) -> tuple[EngineApp, ...]:
        """Return the engine's apps with the shared versions added, then the apps that exist as shared packages only."""
        offered: dict[str, list[Package]] = {}
        for package in sorted(self._all(), key=_age):
            offered.setdefault(package.spec.app, []).append(package)
        known = [replace(app, versions=_joined(app.versions, offered.pop(app.id, []))) for app in held]
        return (*known, *(_offer(packages) for packages in offered.values()))

    async def facts(self, app: str, version: str) -> PackageFacts | None:
        """Return what the shared package of a version says, None where there is none."""
        sha256 = self._sha256(app, version)
        return await self._request.context.facade.packages.inspect(SHARED, sha256) if sha256 else None

    async def fetch(self, facts: PackageFacts) -> Path:
        """Return the file of a shared package."""
        return await self._request.context.facade.packages.fetch(SHARED, facts.sha256)

    def _sha256(self, app: str, version: str) -> str:
        found = (each.spec.sha256 or "" for each in self._all(f"package={app}@{version}"))
        return next(found, "")

    def _all(self, by: str = "") -> Iterator[Package]:
        for one in self._request.context.cache.resources(Package.KIND, SYSTEM_NAMESPACE, by):
            package = cast(Package, one)
            if package.spec.shared and package.ready and not package.deleting:
                yield package


def _age(package: Package) -> tuple[str, str]:
    created = package.metadata.creation_timestamp
    return (created.isoformat() if created else "", package.metadata.name)


def _joined(versions: tuple[str, ...], packages: Iterable[Package]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*versions, *(each.spec.version for each in packages))))


def _offer(packages: list[Package]) -> EngineApp:
    newest = packages[-1]
    name, author = newest.status.name or "", newest.status.author or ""
    return EngineApp(newest.spec.app, name=name, author=author, versions=_joined((), packages))
