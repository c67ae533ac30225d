"""Values of columns as SQLite stores them, and the same values as PostgreSQL's COPY spells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.type_api import TypeEngine

NUMBER_BEGINS = "-0123456789"
"""JSON that begins so is a number. SQLite would take its text for one of its own, and round it: it is stored as bytes."""
_FRACTION = 6
"""Digits of a second in the only form in which SQLite has times."""


class Spelling(NamedTuple):
    """text: of a value of SQLite's, which is not NULL, as COPY has it; stored: the value of SQLite's for such a text."""

    text: Callable[[Any], str]
    stored: Callable[[str], Any]


def spelling(type_: TypeEngine[Any]) -> Spelling:
    """Return the spelling of a column's type. Raises KeyError for a type that no engine declares."""
    if isinstance(type_, sa.Numeric) and not isinstance(type_, sa.Float):
        places = type_.scale or 0
        return Spelling(lambda value: f"{value:.{places}f}" if isinstance(value, float) else str(value), float)
    return next(_SPELLINGS[kind] for kind in type(type_).__mro__ if kind in _SPELLINGS)


def _json_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _json_stored(text: str) -> str | bytes:
    return text.encode() if text[:1] in NUMBER_BEGINS else text


def _time_stored(text: str) -> str:
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<{_FRACTION}}"


_SPELLINGS: dict[type, Spelling] = {
    sa.Boolean: Spelling(lambda value: "t" if value else "f", lambda text: int(text == "t")),
    sa.Date: Spelling(str, str),
    sa.DateTime: Spelling(str, _time_stored),
    sa.Float: Spelling(lambda value: repr(float(value)), float),
    sa.Integer: Spelling(str, int),
    sa.JSON: Spelling(_json_text, _json_stored),
    sa.LargeBinary: Spelling(lambda value: f"\\x{bytes(value).hex()}", lambda text: bytes.fromhex(text.removeprefix("\\x"))),
    sa.String: Spelling(str, str),
    sa.Uuid: Spelling(str, lambda text: text.replace("-", "")),
}
"""By the types of which migration/tables.py makes columns, and the types that these derive from."""
