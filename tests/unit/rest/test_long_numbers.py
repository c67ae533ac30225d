"""A whole number that JSON's reader would round is refused; every other one stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.model.verdicts import Invalid
from tenantry.rest.bodies import load_json

KEPT: list[tuple[bytes, Any]] = [
    (b"18446744073709551615", 2**64 - 1),
    (b"-9223372036854775808", -(2**63)),
    (b'{"a": "12345678901234567890123"}', {"a": "12345678901234567890123"}),
    (b'{"a\\"12345678901234567890123": 1}', {'a"12345678901234567890123': 1}),
    (b"1234567890123456789012.5", 1234567890123456789012.5),
    (b"12345678901234567890123e2", 12345678901234567890123e2),
    (b"0.12345678901234567890123", 0.12345678901234567890123),
    (b"1e-12345678901234567890", 0.0),
]


@pytest.mark.parametrize(("raw", "value"), KEPT)
def test_it_stays(raw: bytes, value: Any) -> None:
    assert load_json(raw) == value


@pytest.mark.parametrize(
    "raw",
    [
        b"18446744073709551616",
        b"-9223372036854775809",
        b'{"j": {"id": 12345678901234567890123}}',
        b"[1,12345678901234567890123]",
        b"[12345678901234567890123\n]",
        b'{"a": "x", "b":-12345678901234567890123}',
    ],
)
def test_it_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid, match="body: holds a whole number beyond 64 bits; send it as a text"):
        load_json(raw)
