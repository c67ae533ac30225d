"""Limits that the platform gives an engine: bytes of its database, and requests per second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from tenantry.engine.database import size_of
from tenantry.model.quotas import DATABASE, REQUESTS, QuotaReached, check_rate, check_storage
from tenantry.rest.fairness.rates import Rates, RequestRates


@dataclass(frozen=True)
class Limits:
    """Bytes of the database, and requests per second; 0: no limit."""

    database: int = 0
    requests: int = 0


def _uncounted(quota: str) -> None:
    return


@dataclass(frozen=True)
class EngineQuota:
    """One engine's limits, as they are at each call. refused: counts a refusal; key: of the engine in `rates`."""

    limits: Callable[[], Limits] = Limits
    refused: Callable[[str], None] = _uncounted
    rates: RequestRates = field(default_factory=Rates)
    key: str = ""

    def admit(self) -> None:
        """Count a request. Raises QuotaReached."""
        limit = self.limits().requests
        if limit and (wait_s := self.rates.take(self.key, limit)) > 0:
            self.refused(REQUESTS)
            check_rate(limit, wait_s)

    @contextmanager
    def growing(self, connection: sa.Connection) -> Iterator[None]:
        """Refuse, before the transaction is committed, what the block added beyond the limit. Raises QuotaReached.

        Space that was freed is used again at the limit: only a database that becomes larger is refused.
        """
        limit = self.limits().database
        if not limit:
            yield
            return
        before = size_of(connection)
        yield
        try:
            check_storage(DATABASE, limit, before, size_of(connection) - before)
        except QuotaReached:
            self.refused(DATABASE)
            raise
