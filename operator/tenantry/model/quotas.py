"""Limits of what a tenant uses, and the refusal at a limit. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tenantry.model.verdicts import Invalid, Problem, Stalled
from tenantry.model.wording import worded

PACKAGES, DATABASE, ARCHIVES, REQUESTS = "packageStorage", "databaseStorage", "archiveStorage", "requestsPerSecond"
QUOTAS = (PACKAGES, DATABASE, ARCHIVES, REQUESTS)
SHARED = (PACKAGES, ARCHIVES)
"""The quotas of a tenant as a whole: those of which it uses a share."""
STORAGE_PATTERN = worded(r"^[1-9][0-9]*(Ki|Mi|Gi|Ti)$", "must be a size in Ki, Mi, Gi or Ti, such as 10Gi")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_MORE = "ask the platform's administrators for more"
_ADVICE = {
    PACKAGES: f"delete versions that no app needs, or {_MORE}",
    DATABASE: f"delete rows, or drop the data of apps that are not used; or {_MORE}",
    ARCHIVES: f"wait until older archives expire, or set deletionPolicy to Delete; or {_MORE}",
    REQUESTS: f"send fewer, or {_MORE}",
}


@dataclass(frozen=True)
class Quotas:
    """Limits of one tenant; None: no limit.

    package_storage, archive_storage: bytes in all. database_storage: bytes of the database of each environment. operations: how
    many are kept. requests_per_second: of the platform's interface, and of each environment.
    """

    package_storage: int | None = None
    database_storage: int | None = None
    archive_storage: int | None = None
    operations: int | None = None
    requests_per_second: int | None = None

    def over(self, default: Quotas) -> Quotas:
        """The same, with the default where nothing is declared."""
        if self == UNLIMITED:
            return default
        return Quotas(**{name: vars(default)[name] if own is None else own for name, own in vars(self).items()})


UNLIMITED = Quotas()


class QuotaReached(Invalid):
    """The tenant uses all that it may. retry_after: seconds until a request is taken again, 0 where time alone does not help."""

    def __init__(self, quota: str, message: str, retry_after: int = 0) -> None:
        super().__init__((Problem("", message),))
        self.verdict = Stalled("QuotaReached", message)
        self.quota = quota
        self.retry_after = retry_after


def check_storage(quota: str, limit: int | None, used: int, more: int, whose: str = "") -> None:
    """Refuse what would use more than the limit. In bytes; whose: such as `tenant acme`. Raises QuotaReached."""
    if limit is None or more <= 0 or used + more <= limit:
        return
    about = f"quota.{quota}{f' of {whose}' if whose else ''} is reached"
    raise QuotaReached(
        quota, f"{about}: {told(used)} of {told(limit)} are used, and {told(more)} more are needed; {_ADVICE[quota]}"
    )


def check_rate(limit: int, wait_s: float, whose: str = "") -> None:
    """Refuse a request that comes too soon. wait_s: until there is room for it, 0 where there is. Raises QuotaReached."""
    if wait_s <= 0:
        return
    seconds = math.ceil(wait_s)
    about = f"quota.{REQUESTS}{f' of {whose}' if whose else ''} is reached"
    raise QuotaReached(REQUESTS, f"{about}: {limit} requests a second; try again in {seconds} s, {_ADVICE[REQUESTS]}", seconds)


CheckArchive = Callable[[str, int, int], None]
"""Refuse an archive: the tenant's namespace, bytes of the archives that it has, and of this one. Raises QuotaReached."""


def unlimited(namespace: str, used: int, more: int) -> None:
    """Take every archive."""


def bytes_of(storage: str) -> int:
    """Bytes of a declared size such as 512Mi."""
    return int(storage[:-2]) << (10 * (("Ki", "Mi", "Gi", "Ti").index(storage[-2:]) + 1))


def told(size: int) -> str:
    """Bytes as people say them, never less than there are."""
    power = min(max(0, (max(1, size).bit_length() - 1) // 10), len(_UNITS) - 1)
    if power == 0 or size % (1 << (10 * power)) == 0:
        return f"{size >> (10 * power)} {_UNITS[power]}"
    return f"{math.ceil(size * 10 / (1 << (10 * power))) / 10:.1f} {_UNITS[power]}"
