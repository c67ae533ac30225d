"""Values in tables of tests are small, or are made when the test runs: each worker holds all tables from the start."""

from __future__ import annotations

import pytest

LARGEST = 1 << 20
"""Bytes, or characters of a text."""


def size_of(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    return 0


@pytest.mark.parametrize(
    ("value", "size"),
    [(b"12", 2), ("1234", 4), (("1", [b"2", "34"]), 4), (7, 0), (lambda: "1", 0)],
    ids=["bytes", "a text", "what holds them", "a number", "a function"],
)
def test_the_size_of_a_parameter_is_that_of_its_texts(value: object, size: int) -> None:
    assert size_of(value) == size


def test_no_parameter_of_a_test_is_large(request: pytest.FixtureRequest) -> None:
    large = {
        item.nodeid.partition("[")[0]
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        if any(size_of(value) > LARGEST for value in item.callspec.params.values())
    }
    assert large == set(), "give a function that makes it"
