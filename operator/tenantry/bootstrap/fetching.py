"""Background fetches by the settings: package bytes, and repositories of Sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tenantry.adapters.fetching.downloads import Downloads
from tenantry.adapters.fetching.fetcher import FetchLimits, PackageFetcher
from tenantry.adapters.sources.git.command import GitLimits
from tenantry.adapters.sources.packages import PackageStore
from tenantry.adapters.sources.repositories import RepositorySettings, SourceRepositories
from tenantry.adapters.sources.sops import Sops
from tenantry.bootstrap.outward import rules_of, web_rules_of
from tenantry.bootstrap.packages import Checking
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import FINALIZED
from tenantry.model.resource import Ref
from tenantry.ports import EngineViews, Packages, Secrets
from tenantry.runtime.cache import Cache
from tenantry.runtime.clock import now
from tenantry.runtime.following.following import SourceFollowing
from tenantry.runtime.operations.attribution import bound_tenants
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.holding import holding
from tenantry.settings import Settings


def repositories_of(
    settings: Settings, *, packages: PackageStore, secrets: Secrets, cache: Cache, folder: Path, work: Path
) -> SourceRepositories:
    """Return the repositories of Sources, below that folder. work: where packages are while they are built."""
    git = settings.git
    limits = RepositorySettings(
        limits=GitLimits(git.timeout.total_seconds(), git.size, git.depth),
        write_s=git.write_timeout.total_seconds(),
        rules=rules_of(settings.outbound),
        sops=Sops(settings.sops.key_file),
    )
    return SourceRepositories(
        folder=folder / "sources",
        work=work,
        settings=limits,
        admission=Admission(),
        packages=packages,
        build=Checking.of(settings).build,
        secrets=secrets,
        tenants=partial(bound_tenants, cache),
        now=now,
    )


@dataclass(frozen=True)
class Fetching:
    """Both, to be ended together."""

    packages: PackageFetcher
    sources: SourceFollowing

    @classmethod
    def of(
        cls,
        settings: Settings,
        packages: Packages,
        folder: Path,
        home: Path,
        writing: WritingStore,
        cache: Cache,
        secrets: Secrets,
        ended: Callable[[Ref], None],
        engines: EngineViews,
    ) -> Fetching:
        """folder: where bytes are until they are stored; home: of the folder with repositories. ended: hears of what has news."""
        allowed = settings.packages
        limits = FetchLimits(allowed.size, allowed.fetch_time.total_seconds(), allowed.fetches)
        fetcher = PackageFetcher(
            packages=packages, folder=folder, downloads=Downloads(web_rules_of(settings.outbound)), limits=limits, ended=ended
        )
        repositories = repositories_of(settings, packages=packages, secrets=secrets, cache=cache, folder=home, work=folder)
        return cls(
            fetcher,
            SourceFollowing(
                store=writing, cache=cache, repositories=repositories, finalized=FINALIZED, ended=ended, holding=holding(engines)
            ),
        )

    @property
    def both(self) -> tuple[PackageFetcher, SourceFollowing]:
        """As ports.Hands has them."""
        return self.packages, self.sources

    async def hand_over(self, covers: Callable[[Ref], bool]) -> None:
        """End it for these objects, which are another process's from now on."""
        await self.sources.hand_over(covers)
        await self.packages.hand_over(covers)

    async def aclose(self) -> None:
        """Ends all of it; nothing is left under way."""
        await self.sources.aclose()
        await self.packages.aclose()
