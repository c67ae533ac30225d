"""The rows of many environments and engines: the bound of each figure."""

from __future__ import annotations

import pytest

from tests.bench import crowded

MIB = 1 << 20


def test_a_crowded_pool_is_bounded_in_memory_and_in_the_slowest_of_its_first_requests() -> None:
    quick, slow = [0.01] * 270, [0.01] * 200 + [0.06] * 70
    memory, first = crowded.rows_of(300, 30, [crowded.Found(90 * MIB, 256 * MIB, quick)] * 3)
    assert (memory.passed, memory.ratio, memory.beside) == (True, 0.5, {"all asleep": "90 MiB"})
    assert (first.passed, first.ratio) == (True, pytest.approx(0.2))
    assert [each.passed for each in crowded.rows_of(300, 30, [crowded.Found(90 * MIB, 600 * MIB, slow)])] == [False, False]
