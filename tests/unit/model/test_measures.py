"""The numbers of the reconcile loop."""

from __future__ import annotations

from itertools import count

import pytest

from tenantry.model.measures import BOUNDS_S, LONG_BOUNDS_S, LoopMeasures, Times
from tenantry.model.resource import Ref

EU, US = Ref("Region", "", "eu"), Ref("Region", "", "us")


def test_a_time_counts_for_every_bound_that_it_does_not_exceed() -> None:
    times = Times()
    for seconds in (0.0, BOUNDS_S[0], 3600.0):
        times.add(seconds)
    found = dict(times.buckets())
    assert (found["0.001"], found["60.0"], found["+Inf"], times.sum) == (2, 2, 3, 3600.001)


def test_a_key_waits_then_runs_then_is_done() -> None:
    """With a clock that moves by a second each time that it is read."""
    seconds = count()
    measures = LoopMeasures(lambda: float(next(seconds)))
    region = measures.kinds["Region"]
    measures.added(EU)
    assert (region.adds, region.depth, region.active) == (1, 1, 0)
    measures.taken(EU)
    assert (region.depth, region.active, region.waited.sum) == (0, 1, 1.0)
    measures.added(US)
    assert measures.unfinished() == {"Region": (2.0, 2.0)}
    measures.done(EU)
    assert (region.depth, region.active, region.worked.sum) == (1, 0, 3.0)
    assert measures.unfinished() == {}


@pytest.mark.parametrize(
    ("seconds", "share", "expected"),
    [
        ((), 0.9, None),
        ((0.3,), 0.5, 0.3),
        ((0.3, 0.3, 0.3, 0.3), 0.5, 0.3),
        ((0.05, 0.05, 2.0), 0.99, 2.44),
        ((0.05, 9999.0), 0.99, 3600.0),
    ],
)
def test_a_quantile_is_that_of_prometheus(seconds: tuple[float, ...], share: float, expected: float | None) -> None:
    """Within a bucket, times are taken to be spread evenly; beyond the last bound, it is that bound."""
    times = Times(LONG_BOUNDS_S)
    for each in seconds:
        times.add(each)
    assert times.quantile(share) == (None if expected is None else pytest.approx(expected))
