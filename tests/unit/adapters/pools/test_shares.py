"""The parts of a limit that the replicas of a pool have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.adapters.pools.shared.shares import fair_share

RATES = st.lists(st.floats(0, 1000), min_size=1, max_size=20)


def rates(limit: float, *asked: float) -> list[float]:
    """The shares of all replicas, in that order."""
    return [fair_share(limit, each, [*asked[:at], *asked[at + 1 :]]).rate for at, each in enumerate(asked)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((0,), (60,)),
        ((500,), (60,)),
        ((500, 0), (60, 0)),
        ((500, 500), (30, 30)),
        ((500, 10), (50, 10)),
        ((500, 30), (30, 30)),
        ((500, 40, 10), (25, 25, 10)),
        ((20, 20), (30, 30)),
        ((40, 0), (50, 10)),
        ((0, 0, 0), (20, 20, 20)),
    ],
    ids=[
        "only one replica",
        "only one replica, asked for more than the limit",
        "all is asked at one",
        "both are asked for too much",
        "one is asked for less than an even part",
        "one is asked for exactly an even part",
        "two share what the third leaves",
        "the rest is divided evenly",
        "the rest is also for one where nothing is asked",
        "nothing is asked",
    ],
)
def test_a_limit_of_60_is_divided(asked: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert rates(60, *asked) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("asked", "depth"),
    [((0, 0), 60), ((60, 0), 60), ((40, 30), 40), ((40, 35), 32), ((90, 0), 60), ((45, 45), 32), ((500, 10), 52), ((0, 500), 2)],
)
def test_a_burst_of_a_second_is_admitted_until_more_than_the_limit_is_asked(asked: tuple[float, float], depth: float) -> None:
    assert fair_share(60, asked[0], asked[1:]).depth == pytest.approx(depth)


@given(st.integers(1, 1000), RATES)
def test_all_shares_are_the_limit_and_none_is_less_than_is_asked_of_an_even_part(limit: int, asked: list[float]) -> None:
    shares = rates(limit, *asked)
    assert sum(shares) == pytest.approx(limit)
    assert all(share >= min(each, limit / len(asked)) * 0.999999 for each, share in zip(asked, shares, strict=True))


@given(st.integers(1, 1000), RATES)
def test_each_may_admit_one_request_and_none_more_at_once_than_a_second_has(limit: int, asked: list[float]) -> None:
    share = fair_share(limit, asked[0], asked[1:])
    assert 1 <= share.depth <= limit
    assert share.rate <= limit * 1.000001
