"""The buckets of one replica, and what it publishes."""

from __future__ import annotations

import pytest

from tenantry.adapters.pools.shared.buckets import SharedBuckets


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Replica:
    """One of so many."""

    def __init__(self, replicas: int = 4) -> None:
        self.time = Time()
        self.buckets = SharedBuckets(self.time)
        self.buckets.learn({}, {}, replicas)
        self.replicas = replicas

    def admitted(self, asked: int, limit: int = 100, engine: str = "e1") -> int:
        return sum(self.buckets.take(engine, limit) == 0 for _ in range(asked))

    def exchange(self, *others: float, after: float = 1.0) -> dict[str, float]:
        """Return what is published after that time. others: the rates at the others, of each engine."""
        self.time.now += after
        asked = self.buckets.asked()
        self.buckets.learn(asked, dict.fromkeys(asked, others), self.replicas)
        return asked

    def settle(self, asked: int, *others: float, limit: int = 100) -> None:
        """Be asked in each of ten seconds."""
        for _ in range(10):
            self.admitted(asked, limit)
            self.exchange(*others)


def test_a_replica_that_was_quiet_admits_a_second_of_requests_at_once() -> None:
    assert Replica().admitted(300) == 100


def test_a_replica_that_is_the_only_one_asked_admits_the_limit() -> None:
    replica = Replica()
    replica.settle(100)
    assert [(replica.admitted(300), replica.exchange())[0] for _ in range(3)] == [100] * 3


def test_a_replica_among_busy_ones_admits_an_even_part_and_no_burst() -> None:
    replica = Replica()
    replica.settle(300, 300, 300, 300)
    replica.admitted(300)
    replica.exchange(300, 300, 300)
    assert [(replica.admitted(300), replica.exchange(300, 300, 300))[0] for _ in range(3)] == [25] * 3


def test_parts_of_less_than_a_request_are_admitted_when_they_are_whole() -> None:
    replica = Replica(5)
    replica.settle(3, 3, 3, 3, 3, limit=2)
    assert sum((replica.admitted(3, limit=2), replica.exchange(3, 3, 3, 3))[0] for _ in range(50)) == pytest.approx(20, abs=1)


def test_light_use_is_not_published_and_is_always_admitted() -> None:
    replica = Replica()
    for _ in range(200):
        assert replica.admitted(2) == 2
        assert replica.exchange(500) == {}


def test_a_rate_is_published_until_it_is_light_again() -> None:
    replica = Replica()
    replica.admitted(80)
    assert replica.exchange() == {"e1": 40}
    assert [replica.exchange().get("e1") for _ in range(5)] == [20, 10, 5, None, None]


def test_two_engines_have_buckets_of_their_own() -> None:
    replica = Replica()
    assert (replica.admitted(300), replica.admitted(5, engine="e2")) == (100, 5)
    assert set(replica.exchange(500)) == {"e1"}


def test_the_answer_to_a_refused_request_names_the_time_of_an_even_part() -> None:
    replica = Replica()
    replica.settle(300, 300, 300, 300)
    replica.admitted(300)
    assert 0 < replica.buckets.take("e1", 100) <= 0.04
    replica.admitted(2, 2, "e2")
    assert replica.buckets.take("e2", 2) == pytest.approx(2)


@pytest.mark.parametrize(("limit", "admitted"), [(10, 2), (400, 100)])
def test_another_limit_counts_at_once(limit: int, admitted: int) -> None:
    replica = Replica()
    replica.settle(3000, 3000, 3000, 3000)
    replica.admitted(3000)
    replica.admitted(1, limit)
    replica.time.now += 1
    assert replica.admitted(3000, limit) == admitted


def test_without_the_others_a_share_holds_for_a_time_and_is_an_even_part_then() -> None:
    replica = Replica()
    replica.settle(100)
    admitted = []
    for held in (True, True, False, False):
        admitted.append(replica.admitted(300))
        replica.time.now += 1
        replica.buckets.asked()
        replica.buckets.lose(held=held)
    replica.admitted(300)
    replica.time.now += 1
    assert ([*admitted], replica.admitted(300)) == ([100, 100, 100, 100], 25)


def test_an_engine_that_is_asked_first_without_the_others_has_an_even_part() -> None:
    replica = Replica()
    replica.admitted(300)
    replica.buckets.asked()
    replica.buckets.lose(held=True)
    replica.time.now += 1
    assert replica.admitted(300) == 25


def test_buckets_that_are_full_again_are_forgotten() -> None:
    replica = Replica()
    replica.admitted(100)
    for _ in range(3):
        replica.exchange(500, 500, 500)
    replica.buckets.forget()
    assert len(replica.buckets._buckets) == 1
    for _ in range(60):
        replica.exchange()
    replica.buckets.forget()
    assert not replica.buckets._buckets
