"""How packages are fetched, as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tenantry.adapters.fetching.downloads import Downloads
from tenantry.adapters.fetching.fetcher import FetchLimits, PackageFetcher
from tenantry.bootstrap.foreign import rules_of
from tenantry.model.resource import Ref
from tenantry.ports import Packages
from tenantry.settings import Settings


def package_fetcher(settings: Settings, packages: Packages, folder: Path, ended: Callable[[Ref], None]) -> PackageFetcher:
    """folder: where bytes are until they are stored. ended: hears of each package whose fetch has ended."""
    allowed = settings.packages
    limits = FetchLimits(allowed.size, allowed.fetch_time.total_seconds(), allowed.fetches)
    return PackageFetcher(packages, folder, Downloads(rules_of(settings.outbound)), limits, ended)
