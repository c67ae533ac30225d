"""The work of a check: what it may cost for each row is bounded before a table has it.

No database ends a function call or a LIKE half-way, so no deadline reaches them. What is refused, or weighed, is the class of
expressions whose result or time grows faster than the values that they read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

MOST_OPERATORS = 200
"""Operators and calls of a check."""
MOST_JOINS = 8
"""`||` of a check. Each makes its result anew, and SQLite keeps all of them until the row is written."""
MOST_WEIGHT = 200
"""The weight of all checks of a table. 20 are about one more copy of the largest row (8 MiB) while it is written."""
LONGEST_CONSTANT = 64
"""Characters that a long value is searched for: each place of it may be compared with all of them."""
WIDEST_CHAR = 1000
"""Characters of the type CHAR(n), which PostgreSQL fills up with spaces."""
SHORT = 1000
"""Characters of a `string` column up to which its values weigh nothing."""

_JOIN, _COPY, _READ, _ARITHMETIC, _SEARCHED = 90, 20, 4, 4, 2
_COPYING = frozenset({
    "btrim", "cast", "coalesce", "greatest", "ifnull", "iif", "least", "left", "lower", "ltrim", "max", "min", "nullif", "right",
    "rtrim", "substr", "substring", "trim", "upper",
})  # fmt: skip
_TRIMS = frozenset({"btrim", "ltrim", "rtrim", "trim"})
_LIKE = frozenset({"glob", "ilike", "like"})
_OPERATING = _LIKE | {"and", "between", "case", "collate", "in", "is", "not", "or", "when"}
_SIDES = frozenset({"both", "leading", "trailing"})
_AFTER_CONSTANT = frozenset({")", ",", "=", "==", "<>", "!=", "and", "else", "end", "escape", "is", "or", "then", "when"})
"""Tokens that end a constant: any other would make a longer expression of it."""
_TYPES = frozenset({"char", "decimal", "in", "numeric", "varchar"})
"""Words before a parenthesis that call nothing."""
_PLAIN_SIGNS = frozenset({"(", ")", ",", "."})
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")|(?P<number>\.?\d[\w.]*)|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<sign>\|\||->>|->|::|<=|>=|<>|!=|==|<<|>>|[-+*/%&|<>=(),.]))\s*"""
)


@dataclass(frozen=True)
class Token:
    """A part of an expression. kind: text, name, number, word or sign; value: a word in lower case, a text without quotes."""

    kind: str
    value: str


class _Heavy(Exception):  # noqa: N818 - the reason to refuse an expression
    """Refusal of an expression, with the reason as its message."""


@dataclass(frozen=True)
class Weight:
    """The cost of a check. reason: to refuse it, or `""`; weight: of its work on long values, as MOST_WEIGHT counts."""

    reason: str = ""
    weight: int = 0


def weight_of(expression: str, long: Set[str]) -> Weight:
    """Weigh the expression of a check. long: names of columns whose values may be long, in lower case."""
    try:
        tokens = tuple(_tokens(expression))
        _check_counts(tokens)
        searched = sum(_searches(tokens))
    except _Heavy as heavy:
        return Weight(str(heavy))
    if not any(token.kind in ("name", "word") and token.value.lower() in long for token in tokens):
        return Weight()
    return Weight("", _SEARCHED * searched + sum(_weights(tokens)))


def _tokens(expression: str) -> Iterator[Token]:
    place = len(expression) - len(expression.lstrip())
    while place < len(expression):
        found = _TOKEN.match(expression, place)
        if found is None:
            raise _Heavy(f"holds {expression[place]!r}, which is not an operator that checks may use")
        kind = str(found.lastgroup)
        value = found[kind]
        yield Token(kind, value[1:-1] if kind in ("text", "name") else value.lower())
        place = found.end()


def _check_counts(tokens: Sequence[Token]) -> None:
    joins = sum(1 for token in tokens if token == Token("sign", "||"))
    if joins > MOST_JOINS:
        raise _Heavy(f"joins with || {joins} times; at most {MOST_JOINS} are allowed: compare the columns one by one")
    operators = sum(1 for token in tokens if _operates(token)) + sum(1 for _ in _calls(tokens))
    if operators > MOST_OPERATORS:
        raise _Heavy(f"has {operators} operators and calls; at most {MOST_OPERATORS} are allowed: make several checks of it")


def _operates(token: Token) -> bool:
    return token.value in _OPERATING if token.kind == "word" else token.kind == "sign" and token.value not in _PLAIN_SIGNS


def _calls(tokens: Sequence[Token]) -> Iterator[tuple[str, Sequence[Sequence[Token]]]]:
    """The names of called functions and types, each with its arguments."""
    for place, (token, following) in enumerate(pairwise(tokens)):
        if token.kind == "word" and following == Token("sign", "(") and token.value not in _OPERATING | {"then", "else"}:
            yield token.value, _arguments(tokens[place + 2 :])


def _arguments(tokens: Sequence[Token]) -> Sequence[Sequence[Token]]:
    """The arguments behind an opened parenthesis, by its commas."""
    depth = 0
    found: list[list[Token]] = [[]]
    for token in tokens:
        sign = token.value if token.kind == "sign" else ""
        if sign == ")" and not depth:
            break
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _weights(tokens: Sequence[Token]) -> Iterator[int]:
    """The weight of each part of an expression over long values."""
    signs = {"||": _JOIN, "->": _COPY, "->>": _COPY, "::": _COPY, "*": _ARITHMETIC, "/": _ARITHMETIC, "%": _ARITHMETIC}
    yield from (signs.get(token.value, 0) for token in tokens if token.kind == "sign")
    yield from (_READ for token in tokens if token.kind == "word" and token.value in _LIKE)
    for name, _ in _calls(tokens):
        yield _COPY if name in _COPYING else 0 if name in _TYPES else _READ


def _searches(tokens: Sequence[Token]) -> Iterator[int]:
    """The characters that each search compares a place with. Raises _Heavy for one whose pattern is not a short constant."""
    for place, token in enumerate(tokens):
        if token.kind == "word" and token.value in _LIKE:
            yield _wild(_pattern(tokens[place + 1 :], token.value.upper()))
    for name, arguments in _calls(tokens):
        if name == "char":
            _check_width(arguments)
        elif name == "instr" and len(arguments) > 1:
            yield len(_constant(arguments[1], "instr(value, part)", "part"))
        elif name == "position":
            yield len(_constant(_before(arguments[0], "in"), "position(part IN value)", "part"))
        elif name in _TRIMS:
            yield _trimmed(name, arguments)
        elif name == "substring":
            _check_substring(arguments)
        elif name == "strftime":
            _constant(arguments[0], "strftime(format, time)", "format")


def _pattern(tokens: Sequence[Token], operator: str) -> str:
    """The pattern of a LIKE: a text, alone or in parentheses, that nothing goes on from."""
    opened = 0
    while opened < len(tokens) and tokens[opened] == Token("sign", "("):
        opened += 1
    closed = list(tokens[opened + 1 : 2 * opened + 1])
    after = tokens[2 * opened + 1 :]
    constant = len(tokens) > opened and tokens[opened].kind == "text" and closed == [Token("sign", ")")] * opened
    if not constant or (after and (after[0].kind not in ("sign", "word") or after[0].value not in _AFTER_CONSTANT)):
        raise _Heavy(f"uses {operator} with a pattern that is not a constant: write it as one text, such as {operator} '%x%'")
    return _short(tokens[opened].value, f"the pattern of {operator}")


def _wild(pattern: str) -> int:
    """The characters after the first wildcard of any length: those before it are compared once."""
    first = re.search(r"[%*]", pattern)
    return len(pattern) - first.start() if first else 0


def _constant(tokens: Sequence[Token], call: str, part: str) -> str:
    if len(tokens) != 1 or tokens[0].kind not in ("text", "number"):
        raise _Heavy(f"calls {call} with a {part} that is not a constant: write it as one text")
    return _short(tokens[0].value, f"the {part} of {call}")


def _short(value: str, what: str) -> str:
    if len(value) > LONGEST_CONSTANT:
        raise _Heavy(f"has {len(value)} characters in {what}; at most {LONGEST_CONSTANT} are allowed")
    return value


def _before(tokens: Sequence[Token], word: str) -> Sequence[Token]:
    """The tokens before a word; all where it does not stand."""
    at = next((place for place, token in enumerate(tokens) if token == Token("word", word)), len(tokens))
    return tokens[:at]


def _trimmed(name: str, arguments: Sequence[Sequence[Token]]) -> int:
    """The number of characters that a trim takes away: `trim(value, 'x')`, or PostgreSQL's `trim(BOTH 'x' FROM value)`."""
    call = f"{name}(value, characters)"
    given = list(arguments[1:])
    if len(before := _before(arguments[0], "from")) < len(arguments[0]):
        given.append([token for token in before if token.kind != "word" or token.value not in _SIDES])
    return sum(len(_constant(each, call, "set of characters")) for each in given if each)


def _check_substring(arguments: Sequence[Sequence[Token]]) -> None:
    """PostgreSQL takes a text in the place of a number for a regular expression."""
    first = arguments[0]
    named = first[min(len(_before(first, word)) for word in ("from", "for")) :]
    for token in (token for part in (*arguments[1:], named) for token in part):
        if token.kind != "number" and (token.kind, token.value) not in (("word", "from"), ("word", "for")):
            raise _Heavy("calls substring with places that are not numbers: call substr(value, first, count)")


def _check_width(arguments: Sequence[Sequence[Token]]) -> None:
    for token in arguments[0]:
        if token.kind == "number" and not (token.value.isdecimal() and int(token.value) <= WIDEST_CHAR):
            raise _Heavy(f"uses CHAR({token.value[:20]}); at most CHAR({WIDEST_CHAR}) is allowed: use VARCHAR")
