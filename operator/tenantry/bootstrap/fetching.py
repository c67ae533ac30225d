"""What is fetched from elsewhere beside the passes, as the settings say: package bytes, and repositories of Sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenantry.adapters.fetching.downloads import Downloads
from tenantry.adapters.fetching.fetcher import FetchLimits, PackageFetcher
from tenantry.bootstrap.foreign import rules_of
from tenantry.bootstrap.seat import FINALIZED
from tenantry.bootstrap.source_kind import SourceRepositories
from tenantry.hosts.source_following import SourceFollowing
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Ref
from tenantry.ports import EngineViews, Packages, Secrets
from tenantry.runtime.cache import Cache
from tenantry.runtime.holding import holding
from tenantry.runtime.writing import WritingStore
from tenantry.settings import Settings


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
        fetcher = PackageFetcher(packages, folder, Downloads(rules_of(settings.outbound)), limits, ended)
        repositories = SourceRepositories(home / "sources", folder, settings, Admission(), packages, secrets, cache)
        return cls(fetcher, SourceFollowing(writing, cache, repositories, FINALIZED, ended, holding(engines)))

    @property
    def both(self) -> tuple[PackageFetcher, SourceFollowing]:
        """As ports.Hands has them."""
        return self.packages, self.sources

    async def aclose(self) -> None:
        """Ends all of it; nothing is left under way."""
        await self.sources.aclose()
        await self.packages.aclose()
