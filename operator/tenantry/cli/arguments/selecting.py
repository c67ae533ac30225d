"""Label selectors, as kubectl takes them: `team=crm,tier!=test,owner,!legacy`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.model.documents import Document

_TERM = re.compile(r"(?P<absent>!)?(?P<key>[A-Za-z0-9][\w./-]*)(?:(?P<sign>==|=|!=)(?P<value>[\w.-]*))?")
_SET = re.compile(r"(?P<key>[A-Za-z0-9][\w./-]*) +(?P<sign>in|notin) +\((?P<values>[^()]*)\)")
_SPLIT = re.compile(r",(?![^(]*\))")


def selector(text: str) -> Callable[[Document], bool]:
    """Return a test of an object's labels; every object passes `""`. Raises Failure."""
    tests = [_test(term.strip()) for term in _SPLIT.split(text)] if text.strip() else []
    return lambda document: all(test(document["metadata"].get("labels") or {}) for test in tests)


def having(condition: str) -> Callable[[Document], bool]:
    """Return a test of an object's conditions: is the one of that type True? Every object passes `""`."""

    def has(document: Document) -> bool:
        told = document.get("status", {}).get("conditions", ())
        return any(each["type"].lower() == condition.lower() and each["status"] == "True" for each in told)

    return has if condition else lambda document: True


def _test(term: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(term):
        key, values = found["key"], {each.strip() for each in found["values"].split(",")}
        return (
            (lambda labels: labels.get(key) in values) if found["sign"] == "in" else lambda labels: labels.get(key) not in values
        )
    found = _TERM.fullmatch(term)
    if found is None or (found["absent"] and found["sign"]):
        raise Failure(f"{term!r} selects nothing; write team=crm, team!=crm, team, !team or 'team in (crm, shop)'", BAD_INPUT)
    key, value = found["key"], found["value"]
    if found["sign"] is None:
        return (lambda labels: key not in labels) if found["absent"] else lambda labels: key in labels
    return (lambda labels: labels.get(key) != value) if found["sign"] == "!=" else lambda labels: labels.get(key) == value
