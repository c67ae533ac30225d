"""The rows of a cluster: the host that a person follows, the rows that may not be lost, and the bound of each figure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.cluster import moving
from tests.bench.cluster.growing import EDITS, Grown, bars, growth
from tests.bench.cluster.moving import WAYS, Moved
from tests.bench.cluster.people import Hosts, Written


def ingress(space: str, host: str) -> dict[str, Any]:
    return {"metadata": {"namespace": space}, "spec": {"rules": [{"host": host}]}}


def test_a_host_leads_where_its_ingress_is() -> None:
    hosts = Hosts()
    assert hosts.space("dev.example.com") == ""
    hosts.learn("ADDED", ingress("pool-a", "dev.example.com"))
    hosts.learn("ADDED", ingress("pool-b", "live.example.com"))
    assert hosts.space("dev.example.com") == "pool-a"
    hosts.learn("DELETED", ingress("pool-a", "dev.example.com"))
    assert hosts.space("dev.example.com") == ""
    hosts.learn("ADDED", ingress("pool-b", "dev.example.com"))
    assert (hosts.space("dev.example.com"), hosts.space("live.example.com")) == ("pool-b", "pool-b")


def written(*answers: tuple[str, int, float]) -> Written:
    rows = Written()
    rows.begin(0.0)
    for answer in answers:
        rows.add(*answer)
    return rows


def test_the_longest_time_without_a_write_is_that_between_two_that_were_acknowledged() -> None:
    rows = written(("a", 201, 1.0), ("b", 503, 2.0), ("c", 0, 3.0), ("d", 201, 4.5), ("e", 201, 5.0))
    assert (rows.longest_s, rows.kept, dict(rows.refused)) == (3.5, ["a", "d", "e"], {503: 1, 0: 1})
    rows.begin(5.0)
    rows.add("f", 201, 5.2)
    assert rows.longest_s == pytest.approx(0.2)


def test_a_row_is_lost_only_if_it_was_acknowledged() -> None:
    rows = written(("a", 201, 1.0), ("b", 502, 2.0), ("c", 201, 3.0))
    assert rows.lost(["a", "b"]) == {"c"}
    assert rows.lost(["a", "c"]) == set()
    with pytest.raises(RuntimeError, match="3 rows, 2 of them different"):
        rows.lost(["a", "c", "c"])
    with pytest.raises(RuntimeError, match="2 were acknowledged"):
        rows.lost(["a", "c", "nobody's"])


@pytest.mark.parametrize(("pauses", "lost", "passed"), [((4.0, 5.0, 9.0), 0, True), ((5.1,), 0, False), ((1.0,), 1, False)])
def test_a_move_is_bounded_by_its_pause_and_loses_nothing(pauses: tuple[float, ...], lost: int, passed: bool) -> None:
    row = moving.row_of(WAYS[0], 1 << 30, [Moved(each, 20.0) for each in pauses], {"lost": str(lost)}, held=not lost)
    assert row.passed is passed
    assert "1,024 MiB moves from a pool to another" in row.work
    assert row.beside == {"whole move": "20.00 s", "lost": str(lost)}


HELD = "10,000 Environments and 30,000 children"
SMALL = Grown(1000, restart=4.0, edit=0.1, writes=(0, 0), operator=100 << 20, api=80 << 20)


@pytest.mark.parametrize(("restart", "passed"), [(40.0, True), (60.0, True), (61.0, False)])
def test_each_environment_of_a_large_platform_costs_at_most_half_more_than_of_a_small_one(restart: float, passed: bool) -> None:
    large = Grown(10_000, restart, 0.1, (0, 0), operator=500 << 20, api=300 << 20)
    rows = {row.work.partition(": ")[2]: row for row in growth(large, SMALL)}
    assert rows["restart until idle"].passed is passed
    assert rows["memory of the operator"].ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("large", "missed"),
    [
        (Grown(10_000, 60.0, 5.0, (0, 0), operator=600 << 20, api=400 << 20), set()),
        (Grown(10_000, 61.0, 5.0, (0, 0), operator=600 << 20, api=400 << 20), {f"restart with {HELD} until idle"}),
        (
            Grown(10_000, 9.0, 5.1, (0, 0), operator=1, api=1),
            {f"the longest of {EDITS} edits in a restart with {HELD}, until Ready"},
        ),
        (Grown(10_000, 9.0, 0.1, (0, 0), operator=601 << 20, api=1), {f"memory of the operator with {HELD}"}),
        (Grown(10_000, 9.0, 0.1, (0, 0), operator=1, api=401 << 20), {f"memory of the api with {HELD}"}),
        (Grown(10_000, 9.0, 0.1, (1, 0), operator=1, api=1), {f"writes of a restart with {HELD}"}),
        (Grown(10_000, 9.0, 0.1, (0, 1), operator=1, api=1), {f"writes of a resync with {HELD}"}),
    ],
    ids=("at its bars", "slow", "late", "operator", "api", "restart writes", "resync writes"),
)
def test_the_largest_platform_has_bars_of_its_own(large: Grown, missed: set[str]) -> None:
    assert {row.work for row in bars(large) if not row.passed} == missed
