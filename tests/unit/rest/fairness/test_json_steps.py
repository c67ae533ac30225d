"""The JSON of a column's values is that of the standard library, and takes no long step to write or read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.rest.fairness import json_steps
from tenantry.rest.fairness.json_steps import beyond_64_bits, decode_json, encode_json
from tenantry.rest.fairness.long_steps import LARGE

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from((1e-5, 9.99e-5, 1e-4, 1e15, 1e16, 1e22, 5e-324, -0.0))
    | st.text()
    | st.text('aé\x7f\ud800\u2028\x1f"\\/0e')
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text('aeé0"\\'), inner, max_size=6), max_leaves=30
)


def standard(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@given(VALUES)
def test_a_value_is_written_as_the_standard_library_writes_it(value: Any) -> None:
    assert encode_json(value) == standard(value)
    assert json_steps._in_slices(value) == standard(value)


@given(VALUES)
def test_a_value_is_read_as_the_standard_library_reads_it(value: Any) -> None:
    for text in (standard(value), standard(value).encode(), json.dumps(value, indent=1)):
        assert repr(decode_json(text)) == repr(json.loads(text))


WIDE: dict[str, Callable[[], Any]] = {
    "whole numbers": lambda: [1] * 50_000,
    "decimals": lambda: [0.1] * 20_000,
    "exponents": lambda: [1e300] * 20_000,
    "more than 64 bits": lambda: [*[1] * 50_000, 2**70],
    "texts": lambda: ["é" * 40] * 5_000,
    "lists": lambda: [[]] * 20_000,
    "lists of one": lambda: [[1]] * 20_000,
    "objects": lambda: [{"a": None, "b": [1e300, {}]}] * 5_000,
    "keys": lambda: {f"key-{number}": number for number in range(20_000)},
    "one inside others": lambda: [[[[{"a": [2**70, *range(50_000)]}]]]],
    "of all kinds": lambda: {"extra": [[1, 2.5, "ü", None]] * 5000, "huge": 2**70},
    "deep": lambda: json.loads("[" * 900 + "1e300" + "]" * 900),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_large_value_comes_back_as_it_went(name: str) -> None:
    value = WIDE[name]()
    text = encode_json(value)
    assert text == standard(value)
    assert decode_json(text) == value


@pytest.mark.parametrize("name", [name for name in WIDE if name not in ("keys", "deep")])
def test_no_step_of_the_standard_library_writes_a_large_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = json_steps._written

    def noted(value: Any) -> str:
        sizes.append(len(text := written(value)))
        return text

    sizes = [0]
    monkeypatch.setattr(json_steps, "_written", noted)
    assert len(encode_json(WIDE[name]())) > LARGE
    assert max(sizes) <= 4 * LARGE


@pytest.mark.parametrize(
    ("text", "beyond"),
    [
        ("9223372036854775807", False),
        ("18446744073709551615", False),
        ("18446744073709551616", True),
        ("-9223372036854775809", True),
        ('"18446744073709551616"', False),
        ("[1, 1844674407370955161600000]", True),
        ("0.12345678901234567890123", False),
        ("12345678901234567890e1", False),
        ("1e12345678901234567890", False),
        ("1e-12345678901234567890", False),
        ("-12345678901234567890.5", False),
        ("[1234567890123456789,-12345678901234567890]", True),
        ('{"a": ["1", 9223372036854775807, "\\"18446744073709551616"], "b": 1}', False),
        ('{"a": ["1", "\\"", 18446744073709551616]}', True),
    ],
)
def test_a_whole_number_beyond_64_bits_is_seen(text: str, beyond: bool) -> None:
    assert beyond_64_bits(text.encode()) == beyond


@pytest.mark.parametrize("text", ["", "[", '{"a"}', "nul", b"\xff"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        decode_json(text)
