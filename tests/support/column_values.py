"""Values of the columns of `crm__kinds`, as the data API spells them."""

from __future__ import annotations

import base64
from typing import Any

TEXTS = ("", "\\", "\\N", "\\.", "a\tb\nc\rd\x0b\x0c\x08", 'it\'s "quoted"', "ß\u2028\ud7ff🜚", "\\x41", "NULL", " ")
VALUES: dict[str, tuple[Any, ...]] = {
    "big": ("0", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
    "price": ("0.00", "-0.01", "99999999.99", "-99999999.99", "0.10", "12345678.90"),
    "ratio": (0.0, 0.1, -1.5, 1e308, 5e-324, 1 / 3, 123456789012345680.0, 2.0),
    "day": ("0001-01-01", "9999-12-31", "2024-02-29"),
    "moment": ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-02-03T04:05:06.5Z", "2026-02-03T04:05:06.000001Z"),
    "extra": ({}, [], "", "123", "\\N", "é\t\n", 1, -0.5, 1e100, 12345678901234567, True, {"a": [{"b": None}, "\\"]}, False),
    "picture": (*(base64.b64encode(each).decode() for each in (b"", b"\\x", bytes(range(256)), b"a\n")),),
    "token": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"),
    "note": TEXTS,
    "order": (0, -2147483648, 2147483647),
}
"""By column: what a type holds at its ends, and what one of the two spells in another way."""
