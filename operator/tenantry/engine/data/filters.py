"""PostgREST's filter syntax, a documented subset: `age=gte.18`, `name=not.in.(a,"b,c")`, `or=(age.lt.18,name.like.A*)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.values import from_text, short_moment
from tenantry.engine.packages.manifest import Column
from tenantry.rest.bodies import invalid

Condition = sa.ColumnElement[bool]
MOST_CONDITIONS = 100
MOST_VALUES = 1000
DEEPEST = 8
LONGEST_PATTERN = 256
MOST_WILDCARDS = 16
PATTERNS = frozenset({"like", "ilike"})
_UNORDERED = frozenset({"json", "blob"})
_COMPARE: dict[str, Callable[[Any, Any], Condition]] = {
    "eq": lambda column, value: column == value,
    "neq": lambda column, value: column != value,
    "gt": lambda column, value: column > value,
    "gte": lambda column, value: column >= value,
    "lt": lambda column, value: column < value,
    "lte": lambda column, value: column <= value,
}
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def operators_of(column: Column) -> tuple[str, ...]:
    """The operators that a column of that type has."""
    if column.type in _UNORDERED:
        return ("is",)
    patterns = tuple(sorted(PATTERNS)) if column.type in ("string", "text") else ()
    return ("eq", "neq", "gt", "gte", "lt", "lte", "in", "is", *patterns)


def comparable(column: sa.ColumnElement[Any], dialect: str) -> sa.ColumnElement[Any]:
    """The column as comparisons and orders take it: texts by their code points, whatever the server's locale is."""
    if dialect == "postgresql" and isinstance(column.type, sa.String):
        return sa.collate(column, "C")
    return column


class Filters:
    """The conditions of one request over one table, as SQL of that dialect. Every value becomes a parameter."""

    def __init__(self, exposed: Exposed, dialect: str) -> None:
        self._exposed = exposed
        self._dialect = dialect
        self._left = MOST_CONDITIONS

    def all_of(self, parameters: Iterable[tuple[str, str]]) -> list[Condition]:
        """One condition a parameter. Raises Invalid naming the parameter."""
        return [self._parameter(name, text) for name, text in parameters]

    def _parameter(self, name: str, text: str) -> Condition:
        if name in ("and", "or", "not.and", "not.or"):
            return self._group(name, text, name, DEEPEST)
        return self._condition(name, text, name)

    def _group(self, operator: str, text: str, field: str, depth: int) -> Condition:
        if depth == 0:
            raise invalid(field, f"is nested deeper than {DEEPEST} levels")
        terms = [self._term(term, field, depth - 1) for term in split_list(text, field)]
        if not terms:
            raise invalid(field, "must hold a condition, such as (age.gte.18,name.eq.Ada)")
        joined = sa.or_(*terms) if operator.endswith("or") else sa.and_(*terms)
        return sa.not_(joined) if operator.startswith("not.") else joined

    def _term(self, term: str, field: str, depth: int) -> Condition:
        head = re.match(r"(?:not\.)?(?:and|or)(?=\()", term)
        if head:
            return self._group(head[0], term[head.end() :], field, depth)
        name, dot, text = term.partition(".")
        if not dot:
            raise invalid(field, f"{term[:60]!r} is no condition, such as age.gte.18")
        return self._condition(name, text, field, quoted=True)

    def _condition(self, name: str, text: str, field: str, quoted: bool = False) -> Condition:
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
            raise invalid(field, f"must be an operator, a point and a value; a {column.type} column has {known}")
        if quoted and operator != "in" and _QUOTED.fullmatch(value):
            value = _unquoted(value)
        condition = self._compared(column, operator, value, field)
        return sa.not_(condition) if negated else condition

    def _compared(self, column: Column, operator: str, text: str, field: str) -> Condition:
        real = self._exposed.table.c[column.name]
        if operator == "is":
            return _is(real, column, text, field)
        if operator in PATTERNS:
            return self._like(real, text, field, operator)
        if operator == "in":
            texts = split_list(text, field)
            if len(texts) > MOST_VALUES:
                raise invalid(field, f"names more than {MOST_VALUES} values")
            values = [from_text(column, _unquoted(one), field) for one in texts]
            if column.type == "datetime" and self._dialect == "sqlite":
                return sa.or_(sa.false(), *(_moment(real, "eq", value) for value in values))
            return real.in_(values)
        value = from_text(column, text, field)
        if column.type == "datetime" and self._dialect == "sqlite":
            return _moment(real, operator, value)
        # As a literal: a bare True would be no value to compare with.
        return _COMPARE[operator](self._comparable(real, operator), sa.literal(value, real.type))

    def _comparable(self, real: sa.Column[Any], operator: str) -> sa.ColumnElement[Any]:
        # Two texts are equal by their bytes in each collation, and an index of another one still finds them.
        return real if operator in ("eq", "neq") else comparable(real, self._dialect)

    def _like(self, real: sa.Column[Any], text: str, field: str, operator: str) -> Condition:
        if len(text) > LONGEST_PATTERN:
            raise invalid(field, f"a pattern has at most {LONGEST_PATTERN} characters")
        if "\0" in text:
            raise invalid(field, "a pattern has no NUL")
        pattern = _like_pattern(text)
        if pattern.count("%") > MOST_WILDCARDS:
            raise invalid(field, f"a pattern has at most {MOST_WILDCARDS} wildcards")
        if len(pattern) - len(pattern.rstrip("\\")) & 1:
            raise invalid(field, "a pattern does not end in a single backslash")
        if operator == "ilike":
            return comparable(real, self._dialect).ilike(pattern, escape="\\")
        if self._dialect == "sqlite":
            # SQLite's LIKE knows no case; its GLOB does.
            return real.op("GLOB", is_comparison=True)(_glob(pattern))
        return comparable(real, self._dialect).like(pattern, escape="\\")


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


def _is(real: sa.Column[Any], column: Column, text: str, field: str) -> Condition:
    match text:
        case "null":
            return real.is_(sa.null())
        case "notnull" | "not_null":
            return real.is_not(sa.null())
        case "true" | "false" if column.type == "boolean":
            # NULL is neither: `not.is.true` holds for it.
            return sa.func.coalesce(real == (text == "true"), sa.false())
        case _:
            raise invalid(field, "is takes null, not_null" + (", true or false" if column.type == "boolean" else ""))


def _moment(real: sa.Column[Any], operator: str, value: Any) -> Condition:
    """SQLite keeps times as text, of two lengths: a whole second may have no fraction, and then it is the lesser text."""
    short = sa.literal(short_moment(value), sa.String)
    text = sa.type_coerce(real, sa.String)
    if value.microsecond:
        return _COMPARE[operator](real, value)
    match operator:
        case "eq":
            return sa.or_(text == short, real == value)
        case "neq":
            return sa.and_(text != short, real != value)
        case "gte" | "lt":
            return _COMPARE[operator](text, short)
        case _:
            return _COMPARE[operator](real, value)


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
