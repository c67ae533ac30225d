"""The rows of many environments and engines: the bound of each figure."""

from __future__ import annotations

import pytest

from tests.bench import crowded, p33, p34

MIB = 1 << 20
LIVED = p34.Found(100.0, 50.0, (100 * MIB, 500 * MIB, 110 * MIB), (1400, 1400))


@pytest.mark.parametrize(
    ("number", "found", "ratio", "passed"),
    [
        (0, LIVED, 10 / 3, True),
        (0, p34.Found(400.0, 50.0, LIVED.memory, LIVED.series), 10 / 12, False),
        (1, LIVED, 0.4096, True),
        (1, p34.Found(100.0, 50.0, (100 * MIB, 1100 * MIB, 110 * MIB), LIVED.series), 1.024, False),
        (2, LIVED, 50 / 300, True),
        (3, LIVED, 1.0, True),
        (3, p34.Found(100.0, 50.0, LIVED.memory, (1400, 1401)), 1401 / 1400, False),
        (4, LIVED, 1.1, True),
        (4, p34.Found(100.0, 50.0, (100 * MIB, 500 * MIB, 121 * MIB), LIVED.series), 1.21, False),
    ],
)
def test_each_figure_of_many_environments_has_its_bound(number: int, found: p34.Found, ratio: float, passed: bool) -> None:
    row = p34.rows_of(10_000, found)[number]
    assert row.ratio == pytest.approx(ratio)
    assert row.passed is passed


def test_a_crowded_pool_is_bounded_in_memory_and_in_the_slowest_of_its_first_requests() -> None:
    quick, slow = [0.01] * 270, [0.01] * 200 + [0.06] * 70
    memory, first = crowded.rows_of(300, 30, [crowded.Found(90 * MIB, 256 * MIB, quick)] * 3)
    assert (memory.passed, memory.ratio, memory.beside) == (True, 0.5, {"all asleep": "90 MiB"})
    assert first.passed
    assert first.ratio == pytest.approx(0.2)
    assert [each.passed for each in crowded.rows_of(300, 30, [crowded.Found(90 * MIB, 600 * MIB, slow)])] == [False, False]


def test_a_few_engines_are_asked_at_a_time_and_each_once() -> None:
    ids = [f"id-{number}" for number in range(2 * p33.BATCH + 1)]
    parts = list(p33.batched(ids))
    assert [id_ for part in parts for id_ in part] == ids
    assert [len(part) for part in parts] == [p33.BATCH, p33.BATCH, 1]
