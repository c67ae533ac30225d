"""The buckets from which one replica of a pool admits requests: each is filled at the replica's share of the engine's limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tenantry.adapters.pools.shared.shares import Share, fair_share

OWN = 0.1
"""This part of an even share is a replica's own: it is neither published nor taken away. So light use costs no statement."""


@dataclass(slots=True)
class _Bucket:
    """left: requests at the time `since`; share: None while no more is asked than is the replica's own.

    asked: requests in a second, of late; count: requests since then.
    """

    limit: int
    left: float
    since: float
    share: Share | None = None
    asked: float = 0.0
    count: int = 0


class SharedBuckets:
    """RequestRates of one replica. The keys are ids of engines. Not for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._active: set[str] = set()
        """The engines that were asked since the last look, or of which a share is held."""
        self._looked = clock()
        self._replicas = 1

    def take(self, key: str, per_second: int) -> float:
        """Take a request out of the bucket: 0.0, or the seconds until there is one, and nothing is taken."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(per_second, float(per_second), now)
        elif bucket.limit != per_second:
            self._relimit(bucket, per_second)
        if not bucket.count:
            self._active.add(key)
        bucket.count += 1
        rate, depth = self._share(bucket)
        left = bucket.left = min(depth, bucket.left + (now - bucket.since) * rate)
        bucket.since = now
        if left < 1:
            # The share follows what is asked: who asks has an even part soon.
            return (1 - left) / max(rate, self._even(bucket))
        bucket.left -= 1
        return 0.0

    def asked(self) -> dict[str, float]:
        """Look at what was asked since the last look. Return the rates that the other replicas have to know, by engine."""
        now = self._clock()
        passed, self._looked = max(now - self._looked, 1.0), now
        published = {}
        for key in tuple(self._active):
            bucket = self._buckets[key]
            rate, bucket.count = bucket.count / passed, 0
            bucket.asked = (bucket.asked + rate) / 2
            if bucket.asked > OWN * self._even(bucket):
                published[key] = bucket.asked
            else:
                self._settle(bucket, now, None)
                self._active.remove(key)
        return published

    def learn(self, published: Mapping[str, float], others: Mapping[str, Sequence[float]], replicas: int) -> None:
        """Take the shares that follow from what the other replicas published, by engine. replicas: with this one."""
        self._replicas = replicas
        now = self._clock()
        for key, asked in published.items():
            bucket = self._buckets[key]
            share = fair_share(bucket.limit, asked, others.get(key, ()))
            self._settle(bucket, now, share)

    def lose(self, *, held: bool) -> None:
        """Go on without the others, each with an even part. held: an engine that has a share keeps it."""
        now = self._clock()
        for key in self._active:
            bucket = self._buckets[key]
            if bucket.share is None or not held:
                self._settle(bucket, now, Share(self._even(bucket), bucket.limit))

    def forget(self) -> None:
        """Let the buckets go that are full again."""
        now = self._clock()
        for key in self._buckets.keys() - self._active:
            bucket = self._buckets[key]
            self._settle(bucket, now, bucket.share)
            if bucket.left >= bucket.limit:
                del self._buckets[key]

    def _settle(self, bucket: _Bucket, now: float, share: Share | None) -> None:
        """Fill the bucket until now at the rate of before; go on with another share."""
        rate, _ = self._share(bucket)
        bucket.left += (now - bucket.since) * rate
        bucket.since, bucket.share = now, share
        bucket.left = min(bucket.left, self._share(bucket).depth)

    def _share(self, bucket: _Bucket) -> Share:
        own = OWN * self._even(bucket)
        if bucket.share is None:
            return Share(own, bucket.limit)
        return Share(max(own, bucket.share.rate), bucket.share.depth)

    def _even(self, bucket: _Bucket) -> float:
        return bucket.limit / self._replicas

    def _relimit(self, bucket: _Bucket, limit: int) -> None:
        if bucket.share is not None:
            rate, depth = bucket.share
            bucket.share = Share(rate * limit / bucket.limit, max(1.0, depth * limit / bucket.limit))
        bucket.limit = limit
