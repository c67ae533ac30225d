"""Numbers of the console as people read them."""

from __future__ import annotations

import pytest

from tenantry.console.http.pages import figure


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "s", "-"),
        (0, "s", "0 s"),
        (0.0421, "s", "42 ms"),
        (30, "s", "30 s"),
        (6.24, "s", "6.24 s"),
        (119.9, "s", "120 s"),
        (1800, "s", "30 min"),
        (0.06, "share", "6 %"),
        (12_345, "", "12,345"),
    ],
)
def test_a_figure_has_its_unit(value: float | None, unit: str, expected: str) -> None:
    assert figure(value, unit) == expected
