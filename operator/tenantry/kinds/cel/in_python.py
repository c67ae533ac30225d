"""Rules in CEL that Python judges itself: a call of the CEL library costs as much as the rest of a write's admission.

The text of a rule is parsed once and becomes nested functions. Only operators that mean the same in both languages on values that
a schema admits are taken; every other rule, and every value on which a function fails, is left to CEL.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Evaluated = Callable[[Mapping[str, Any]], Any]
"""The value of an expression, given `self` and `oldSelf`. Raises KeyError, TypeError and the like where CEL must judge."""

_NAMES = frozenset({"self", "oldSelf"})


class _Unknown(Exception):  # noqa: N818 - it is how a translation ends
    """CEL has to judge this rule."""


def _leave() -> Any:
    raise TypeError("CEL has to judge this value")


def _same(one: Any, other: Any) -> bool:
    """Python takes True for 1 and 1.0 for 1. Values of different types are left to CEL."""
    if type(one) is not type(other):
        _leave()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _ordered(compared: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: compared(one, other) if type(one) is type(other) else _leave()


_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: _same,
    ast.NotEq: lambda one, other: not _same(one, other),
    ast.LtE: _ordered(operator.le),
    ast.GtE: _ordered(operator.ge),
    ast.Lt: _ordered(operator.lt),
    ast.Gt: _ordered(operator.gt),
    ast.In: lambda item, many: any(_same(item, each) for each in many),
}
_METHODS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "size": (0, len),
    "contains": (1, lambda text, part: part in text if isinstance(text, str) else _leave()),
    "startsWith": (1, str.startswith),
}
"""Methods, each with the number of its arguments."""
_TEXT = re.compile(r"('[^']*'|\"[^\"]*\")")
_SPELLED = (("&&", " and "), ("||", " or "))


def in_python(rule: str) -> Evaluated | None:
    """Return the rule as a function of Python, or None if CEL has to judge it."""
    if "\\" in rule:
        return None
    try:
        return _of(ast.parse(_spelled(rule), mode="eval").body)
    except (_Unknown, SyntaxError):
        return None


def _spelled(rule: str) -> str:
    """The rule with Python's operators. `~` binds as tightly as CEL's `!`; `not` does not."""
    parts = _TEXT.split(rule)
    for index in range(0, len(parts), 2):
        for theirs, ours in _SPELLED:
            parts[index] = parts[index].replace(theirs, ours)
        parts[index] = re.sub(r"!(?!=)", "~", parts[index])
    return "".join(parts).strip()


def _of(node: ast.expr) -> Evaluated:
    match node:
        case ast.Constant(value=str() | int() as value):
            return lambda _: value
        case ast.List(elts=elements):
            items = [_of(each) for each in elements]
            return lambda given: [each(given) for each in items]
        case ast.Name(id=name) if name in _NAMES:
            return lambda given: given[name]
        case ast.Attribute(value=inner, attr=field):
            holder = _of(inner)
            return lambda given: holder(given)[field]
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            denied = _flag(_of(inner))
            return lambda given: not denied(given)
        case ast.BoolOp(op=ast.And() | ast.Or() as operation, values=values):
            flags = [_flag(_of(each)) for each in values]
            joined = all if isinstance(operation, ast.And) else any
            return lambda given: joined(each(given) for each in flags)
        case ast.BinOp(op=ast.Add(), left=first, right=second):
            left, right = _of(first), _of(second)
            return lambda given: left(given) + right(given)
        case ast.Compare(left=first, ops=[compared], comparators=[second]) if type(compared) in _COMPARED:
            left, right, same = _of(first), _of(second), _COMPARED[type(compared)]
            return lambda given: same(left(given), right(given))
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _call(function, arguments)
    raise _Unknown


def _call(function: ast.expr, arguments: list[ast.expr]) -> Evaluated:
    match function, arguments:
        case ast.Attribute(value=ast.List() as many, attr="exists" | "filter" as name), [ast.Name(id=one), ast.Name(id=kept)] if (
            one == kept
        ):
            flags = [_flag(_of(each)) for each in many.elts]
            counted = any if name == "exists" else _true_ones
            return lambda given: counted([each(given) for each in flags])
        case ast.Name(id="has"), [ast.Attribute(value=inner, attr=field)]:
            holder = _of(inner)
            return lambda given: field in holder(given) if isinstance(holder(given), Mapping) else _leave()
        case ast.Attribute(value=inner, attr=name), _ if name in _METHODS and len(arguments) == _METHODS[name][0]:
            subject, method, rest = _of(inner), _METHODS[name][1], [_of(each) for each in arguments]
            return lambda given: method(subject(given), *(each(given) for each in rest))
    raise _Unknown


def _true_ones(flags: list[bool]) -> list[bool]:
    return [flag for flag in flags if flag]


def _flag(inner: Evaluated) -> Evaluated:
    """Python takes every value for true or false, CEL only its booleans."""

    def flag(given: Mapping[str, Any]) -> bool:
        value = inner(given)
        return value if isinstance(value, bool) else bool(_leave())

    return flag
