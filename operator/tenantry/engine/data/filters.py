"""PostgREST's filter syntax, a documented subset: `age=gte.18`, `name=not.in.(a,"b,c")`, `or=(age.lt.18,name.like.A*)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.values import from_text
from tenantry.packages.manifest import Column
from tenantry.rest.bodies import invalid

MOST_CONDITIONS = 100
MOST_VALUES = 1000
DEEPEST = 8
LONGEST_PATTERN = 256
MOST_WILDCARDS = 16
PATTERNS = frozenset({"like", "ilike"})
_UNORDERED = frozenset({"json", "blob"})
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def operators_of(column: Column) -> tuple[str, ...]:
    """The operators that a column of that type has."""
    if column.type in _UNORDERED:
        return ("is",)
    patterns = tuple(sorted(PATTERNS)) if column.type in ("string", "text") else ()
    return ("eq", "neq", "gt", "gte", "lt", "lte", "in", "is", *patterns)


@dataclass(frozen=True)
class Comparison:
    """One condition, without its values. operator: with `is`, the word behind it too. first, count: of its values."""

    column: str
    operator: str
    first: int
    count: int
    negated: bool


@dataclass(frozen=True)
class Group:
    """Conditions of which one has to hold, or all."""

    terms: tuple[Term, ...]
    one: bool
    negated: bool


Term = Comparison | Group


@dataclass(frozen=True)
class Filtered:
    """The conditions of a request. shape: all but the values, by which a statement is kept; values: by parameter."""

    shape: tuple[Term, ...]
    values: Mapping[str, Any]


def parameter(number: int) -> str:
    """The name of the parameter for a value."""
    return f"value_{number}"


class Filters:
    """The conditions of one request over one table, for a database of that dialect. Every value becomes a parameter."""

    def __init__(self, exposed: Exposed, dialect: str) -> None:
        self._exposed = exposed
        self._dialect = dialect
        self._left = MOST_CONDITIONS
        self._values: list[Any] = []

    def all_of(self, parameters: Iterable[tuple[str, str]]) -> Filtered:
        """One condition a parameter. Raises Invalid naming the parameter."""
        shape = tuple([self._parameter(name, text) for name, text in parameters])
        return Filtered(shape, {parameter(number): value for number, value in enumerate(self._values)})

    def _parameter(self, name: str, text: str) -> Term:
        if name in ("and", "or", "not.and", "not.or"):
            return self._group(name, text, name, DEEPEST)
        return self._condition(name, text, name)

    def _group(self, operator: str, text: str, field: str, depth: int) -> Group:
        if depth == 0:
            raise invalid(field, f"is nested deeper than {DEEPEST} levels")
        terms = tuple([self._term(term, field, depth - 1) for term in split_list(text, field)])
        if not terms:
            raise invalid(field, "must hold a condition, such as (age.gte.18,name.eq.Ada)")
        return Group(terms, operator.endswith("or"), operator.startswith("not."))

    def _term(self, term: str, field: str, depth: int) -> Term:
        head = re.match(r"(?:not\.)?(?:and|or)(?=\()", term)
        if head:
            return self._group(head[0], term[head.end() :], field, depth)
        name, dot, text = term.partition(".")
        if not dot:
            raise invalid(field, f"{term[:60]!r} is not a condition, such as age.gte.18")
        return self._condition(name, text, field, quoted=True)

    def _condition(self, name: str, text: str, field: str, quoted: bool = False) -> Comparison:
        column = self._exposed.columns.get(name)
        if column is None:
            raise invalid(field, f"there is no column {name[:64]}" if name != field else "there is no such column")
        self._left -= 1
        if self._left < 0:
            raise invalid(field, f"more than {MOST_CONDITIONS} conditions")
        negated = text.startswith("not.")
        operator, dot, value = text.removeprefix("not.").partition(".")
        if not dot or operator not in operators_of(column):
            known = ", ".join(operators_of(column))
            raise invalid(field, f"must be an operator, a point and a value; a column of type {column.type} has {known}")
        if quoted and operator != "in" and _QUOTED.fullmatch(value):
            value = _unquoted(value)
        if operator == "is":
            return Comparison(name, f"is.{_state(column, value, field)}", 0, 0, negated)
        values, first = self._compared(column, operator, value, field), len(self._values)
        self._values += values
        return Comparison(name, operator, first, len(values), negated)

    def _compared(self, column: Column, operator: str, text: str, field: str) -> list[Any]:
        """The values of a comparison, as the database takes them."""
        if operator in PATTERNS:
            return [self._pattern(text, field, operator)]
        if operator != "in":
            return [from_text(column, text, field)]
        texts = split_list(text, field)
        if len(texts) > MOST_VALUES:
            raise invalid(field, f"names more than {MOST_VALUES} values")
        return _filled_up([from_text(column, _unquoted(one), field) for one in texts])

    def _pattern(self, text: str, field: str, operator: str) -> str:
        if len(text) > LONGEST_PATTERN:
            raise invalid(field, f"a pattern has at most {LONGEST_PATTERN} characters")
        if "\0" in text:
            raise invalid(field, "a pattern has no NUL")
        pattern = _like_pattern(text)
        if pattern.count("%") > MOST_WILDCARDS:
            raise invalid(field, f"a pattern has at most {MOST_WILDCARDS} wildcards")
        if len(pattern) - len(pattern.rstrip("\\")) & 1:
            raise invalid(field, "a pattern does not end in a single backslash")
        # SQLite's LIKE knows no case; its GLOB does.
        return _glob(pattern) if operator == "like" and self._dialect == "sqlite" else pattern


def _filled_up(values: list[Any]) -> list[Any]:
    """The values of a list, the last one repeated up to a power of two: lists of few lengths share few statements."""
    wanted = 1 << (len(values) - 1).bit_length()
    return values + values[-1:] * (wanted - len(values)) if values else []


def split_list(text: str, field: str) -> list[str]:
    """The parts of `(a,"b,c",d(e,f))`, which commas divide that stand neither in quotes nor in parentheses. Raises Invalid."""
    if not (text.startswith("(") and text.endswith(")")):
        raise invalid(field, "must be a list in parentheses, such as (a,b)")
    inner, parts, depth, start, position = text[1:-1], [], 0, 0, 0
    while position < len(inner):
        character = inner[position]
        if character == '"':
            quoted = _QUOTED.match(inner, position)
            if quoted is None:
                raise invalid(field, "a quote is not closed")
            position = quoted.end()
            continue
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append(inner[start:position])
            start = position + 1
        position += 1
    if depth:
        raise invalid(field, "its parentheses are not balanced")
    return [*parts, inner[start:]] if inner else []


def _unquoted(text: str) -> str:
    return _ESCAPED.sub(r"\1", text[1:-1]) if _QUOTED.fullmatch(text) else text


def _state(column: Column, text: str, field: str) -> str:
    match text:
        case "null":
            return "null"
        case "notnull" | "not_null":
            return "not_null"
        case "true" | "false" if column.type == "boolean":
            return text
        case _:
            raise invalid(field, "is takes null, not_null" + (", true or false" if column.type == "boolean" else ""))


def _like_pattern(text: str) -> str:
    """`text` with `%` for each `*` that no backslash escapes."""
    return re.sub(r"\\.|\*", lambda found: "%" if found[0] == "*" else found[0], text, flags=re.DOTALL)


def _glob(pattern: str) -> str:
    """A LIKE pattern as GLOB spells it."""
    signs = {"%": "*", "_": "?"}
    special = {"*": "[*]", "?": "[?]", "[": "[[]"}
    out, position = [], 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
            character = pattern[position]
            out.append(special.get(character, character))
        else:
            out.append(signs.get(character) or special.get(character, character))
        position += 1
    return "".join(out)
