"""The part of a limit that one of several replicas may use: max-min fair over the rates that are asked at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FEW = 2
"""Requests that a full bucket has beyond its share."""


class Share(NamedTuple):
    """rate: requests in a second; depth: requests at once, after a pause."""

    rate: float
    depth: float


def fair_share(limit: float, asked: float, others: Sequence[float]) -> Share:
    """Return the share of the replica at which `asked` is asked. others: the rates that are asked at the others.

    A replica at which less than an even part is asked has that, and the rest is divided in the same way among the others. A
    remainder that nobody asks is divided evenly, so the rates of all replicas add up to the limit.

    Each may admit a second's worth at once, because any of them may get a burst. That becomes less the more is asked beyond the
    limit: from one and a half of it on, the share of a second, and a few requests in which fractions of small shares add up.
    """
    rates = sorted((asked, *others))
    left = limit
    for number, rate in enumerate(rates):
        even = left / (len(rates) - number)
        if rate >= even:
            share = min(asked, even)
            break
        left -= rate
    else:
        share = asked + left / len(rates)
    return Share(share, min(limit, max(share + FEW, 3 * limit - 2 * sum(rates))))
