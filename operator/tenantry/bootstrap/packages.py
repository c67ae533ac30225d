"""Package files, as large as the settings allow: the same everywhere, or a plan would allow what a pass refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.limited_packages import CountedPackages, LimitedPackages
from tenantry.bootstrap.outward import limits_of
from tenantry.bootstrap.pass_ports import quotas_of
from tenantry.model.facts import PackageFacts
from tenantry.packages import build, check
from tenantry.packages.inspector import Inspector
from tenantry.runtime.cache import Cache
from tenantry.runtime.quotas import TenantQuotas
from tenantry.settings import Settings

F = TypeVar("F", bound=CountedPackages)


@dataclass(frozen=True)
class Checking:
    """Makes and checks package files. Blocks."""

    limits: check.PackageLimits
    inspector: Inspector

    @classmethod
    def of(cls, settings: Settings) -> Checking:
        limits = limits_of(settings.packages)
        return cls(limits, Inspector(limits))

    def inspect(self, package: Path) -> PackageFacts:
        """Return the facts of a file. Raises Invalid."""
        return self.inspector.inspect(package)

    def read(self, package: Path) -> PackageFacts:
        """Return the facts of a file that is stored already. Raises Invalid."""
        return self.inspector.inspect(package, stored=True)

    def build(self, folder: Path, out: Path) -> PackageFacts:
        """The file of a package's source, by the rules for stored ones: `inspect` refuses it where it is new. Raises Invalid."""
        return build.build(folder, out, replace(self.limits, stored=True))


@dataclass(frozen=True)
class StoredPackages(Generic[F]):
    """The packages of a host. limited: what everybody puts them by, within the tenants' quotas."""

    files: F
    limited: LimitedPackages
    quotas: TenantQuotas
    checking: Checking

    @classmethod
    def of(cls, files: Callable[[Checking], F], cache: Cache, settings: Settings) -> StoredPackages[F]:
        """Those files, within the limits that Tenants declare and the settings give."""
        quotas = TenantQuotas(cache, quotas_of(settings))
        checking = Checking.of(settings)
        stored = files(checking)
        return cls(stored, LimitedPackages(stored, quotas), quotas, checking)


def packages_in(state: Path, cache: Cache, settings: Settings) -> StoredPackages[FolderBlobs]:
    """Open the packages of a state folder. Blocks. Raises StateUnwritable."""
    return StoredPackages.of(lambda checking: FolderBlobs(state / "packages", checking.inspect, checking.read), cache, settings)
