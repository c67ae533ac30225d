"""The rows of a cluster: the host that a person follows, the rows that may not be lost, and the bound of each figure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.cluster import moving
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
