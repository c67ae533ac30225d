"""Plain YAML scalars, resolved as the API server's parser resolves them (YAML 1.1 as Go reads it), then as JSON carries them."""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_FIRST = frozenset("0123456789+-.yYnNtTfFoO~")
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_BASES = (16, 2, 8, 10)
_EXACT = 1e21
"""Below it an integral float is written without exponent in JSON, and so read as an integer."""


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Dates and sexagesimal numbers stay strings. Raises ValueError for infinity and NaN."""
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def _number(text: str) -> Scalar:
    if _NOT_JSON.match(text):
        raise ValueError(f"{text} is not a JSON number")
    plain = text.replace("_", "") if text[0] != "." else text
    if found := _INTEGER.match(plain):
        sign, *digits = found.groups()
        base, written = next((b, d) for b, d in zip(_BASES, digits, strict=True) if d)
        return int(sign + written, base)
    if _FLOAT.match(plain):
        return _as_json(float(plain))
    return text


def _as_json(number: float) -> Scalar:
    if math.isinf(number):
        raise ValueError("the number is too large")
    return int(number) if number.is_integer() and abs(number) < _EXACT else number
