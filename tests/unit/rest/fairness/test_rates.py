"""Requests per second."""

from __future__ import annotations

import pytest

from tenantry.rest.fairness.rates import Rates


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_second_of_requests_is_taken_at_once_and_the_next_waits_for_its_turn() -> None:
    rates = Rates(Clock())
    assert [rates.take("acme", 4) for _ in range(5)] == [0, 0, 0, 0, 0.25]


def test_a_bucket_fills_with_time_and_never_beyond_a_second() -> None:
    rates, clock = Rates(clock := Clock()), clock
    while not rates.take("acme", 4):
        pass
    clock.now += 0.5
    assert [rates.take("acme", 4) for _ in range(3)] == [0, 0, pytest.approx(0.25)]
    clock.now += 60
    assert sum(rates.take("acme", 4) == 0 for _ in range(9)) == 4


def test_the_requests_of_one_are_not_those_of_another() -> None:
    rates = Rates(Clock())
    assert [rates.take(key, 1) for key in ("acme", "acme", "globex")] == [0, 1, 0]


def test_a_limit_that_is_lowered_counts_at_once() -> None:
    rates = Rates(Clock())
    rates.take("acme", 100)
    assert sum(rates.take("acme", 2) == 0 for _ in range(9)) == 2
