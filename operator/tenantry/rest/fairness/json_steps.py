"""The JSON of a column's values, in steps that hold the interpreter for milliseconds at most.

The standard library needs 30 ms for 200,000 whole numbers, and lets nothing else run meanwhile. orjson needs a tenth of that, but
writes some values otherwise. Stored JSON is compared by its text, so that it must stay as the standard library writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from tenantry.rest.fairness.long_steps import LARGE, LONG_STEPS

_DIGITS = bytes(ord("1") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_LONG = b"1" * 19
"""Digits from which a number may be beyond 64 bits. An expression for them takes 30 ms to look through a megabyte."""
JSON_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A text in JSON, or the beginning of one."""
_WHOLE = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}+(?![0-9.eE])")
_EXPONENT = re.compile(rb"[0-9]e")
_WRITTEN_OTHERWISE = (b"0.0000", b"null", b"\x7f")
"""In what orjson has written: small numbers, perhaps what is no number, and a character that the standard library escapes."""
_NO_OTHERS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_SLICE = 256
"""Values that are written in one step: some tenths of a millisecond."""


def encode_json(value: Any) -> str:
    """Return the JSON of a value of a column, without spaces, as SQLite's `json` writes it. Blocks."""
    size = 0
    try:
        written = LONG_STEPS.following(lambda: orjson.dumps(value, option=_NO_OTHERS))
        size = len(written)
        if _is_standard(written):
            return written.decode()
    except TypeError:  # a number beyond 64 bits, half a surrogate pair, or more levels than orjson writes
        size = LARGE
    return _written(value) if size < LARGE else _in_slices(value)


def decode_json(text: str | bytes) -> Any:
    """Return the value of a column's JSON. Blocks. Raises ValueError."""
    return LONG_STEPS.over(len(text), lambda: _read(text))


def beyond_64_bits(raw: bytes) -> bool:
    """Return True if JSON holds a whole number beyond 64 bits: orjson reads it as a double, without a word."""
    return any(len(each) > 21 or not -(2**63) <= int(each) < 2**64 for each in _long_numbers(raw))


def _long_numbers(raw: bytes) -> Iterator[bytes]:
    """Yield the whole numbers of JSON that have 19 digits or more. No step of it is long."""
    if _LONG not in raw.translate(_DIGITS):
        return
    bare = JSON_TEXT.sub(_nothing, raw)
    digits = bare.translate(_DIGITS)
    at = digits.find(_LONG)
    while at >= 0:
        number = _WHOLE.match(bare, at - (bare[at - 1 : at] == b"-"))
        if number is not None:
            yield number[0]
        end = digits.find(b" ", at)
        at = digits.find(_LONG, end) if end >= 0 else -1


def _nothing(text: re.Match[bytes]) -> bytes:
    """A call between two texts, where the interpreter may do something else."""
    return b""


def _read(text: str | bytes) -> Any:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not beyond_64_bits(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass  # half a surrogate pair, more levels than orjson reads, or an infinite number; else it is refused below as well
    return json.loads(text)


def _is_standard(written: bytes) -> bool:
    """Return True if the standard library writes surely the same. It escapes what is not ASCII."""
    if not written.isascii() or any(each in written for each in _WRITTEN_OTHERWISE):
        return False
    return b"e" not in written or not _EXPONENT.search(written)


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _in_slices(value: Any) -> str:
    parts: list[str] = []
    try:
        _add(value, parts)
    except RecursionError:
        return _written(value)
    return "".join(parts)


def _add(value: Any, parts: list[str]) -> None:
    """Add the JSON of a value to the parts. Between two of them, the interpreter may do something else."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        begin = "{"
        for key, each in value.items():
            parts.append(f"{begin}{_written(key)}:")
            _add(each, parts)
            begin = ","
        parts.append("{}" if begin == "{" else "}")
    elif isinstance(value, list) and value:
        begin = "["
        for first in range(0, len(value), _SLICE):
            some = value[first : first + _SLICE]
            if any(isinstance(each, dict | list) for each in some):
                for each in some:
                    parts.append(begin)
                    _add(each, parts)
                    begin = ","
            else:
                parts.append(begin + _written(some)[1:-1])
                begin = ","
        parts.append("]")
    else:
        parts.append(_written(value))
