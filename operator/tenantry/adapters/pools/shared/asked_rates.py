"""The table of the rates of requests that are asked at each replica, in the pool's own database."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tenantry.adapters.pools.shared.short_statements import ShortStatements

COUNTS_S = 5
"""Seconds for which the rates that a replica wrote count. A replica that died holds its share so long."""
LIVES_S = 90
"""Seconds for which a replica that is not heard of counts as one."""
# A row for each replica, and none for each engine: one write a second, however many engines are asked.
_EXCHANGE = """
WITH mine AS (
    INSERT INTO asked (replica, at, engines, rates) VALUES (%(replica)s, now(), %(engines)s::text[], %(rates)s::float8[])
    ON CONFLICT (replica) DO UPDATE SET at = excluded.at, engines = excluded.engines, rates = excluded.rates
), gone AS (
    DELETE FROM asked WHERE replica IN (
        SELECT replica FROM asked
        WHERE replica <> %(replica)s AND at < now() - make_interval(secs => %(lives)s) FOR UPDATE SKIP LOCKED
    )
), others AS (
    SELECT * FROM asked WHERE replica <> %(replica)s AND at >= now() - make_interval(secs => %(lives)s)
), found AS (
    SELECT engine, array_agg(rate) AS rates
    FROM others CROSS JOIN unnest(others.engines, others.rates) AS each (engine, rate) JOIN unnest(%(engines)s::text[]) AS engine
    USING (engine)
    WHERE at >= now() - make_interval(secs => %(counts)s)
    GROUP BY engine
)
SELECT (SELECT count(*) FROM others), engine, found.rates FROM (VALUES (1)) AS one LEFT JOIN found ON true
"""


class OtherReplicas(NamedTuple):
    """replicas: how many there are besides this one; asked: the rates that are asked at them, by engine."""

    replicas: int
    asked: Mapping[str, Sequence[float]]


class AskedRates(ShortStatements):
    """Blocks; for one thread."""

    def __init__(self, url: str) -> None:
        """url: of the pool's own database."""
        super().__init__(url)
        self._replica = secrets.token_hex(8)

    def exchange(self, asked: Mapping[str, float]) -> OtherReplicas:
        """Publish what is asked here (requests in a second, by the id of the engine), in place of what was published before.

        Return what the others published of the same engines. Raises a Transient Halt (PoolServerUnreachable).
        """
        values = {"replica": self._replica, "engines": list(asked), "rates": list(asked.values())}
        with self._asking() as connection:
            rows = connection.execute(_EXCHANGE, {**values, "lives": LIVES_S, "counts": COUNTS_S}).fetchall()
        return OtherReplicas(rows[0][0], {engine: rates for _, engine, rates in rows if engine is not None})
