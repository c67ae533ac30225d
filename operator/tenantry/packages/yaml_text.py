"""The text of a YAML file: the lines of its fields, its faults, and words that YAML reads otherwise than they were meant."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import yaml

_CLEARER = {
    "found character that cannot start any token": "no text begins with this character; use spaces instead of tabs, or quote it",
    "found character '\\t' that cannot start any token": "a tab is not allowed here; use spaces",
    "mapping values are not allowed in this context": "a `:` is not allowed here; check the indentation, or quote the text",
    "mapping values are not allowed here": "a `:` is not allowed here; check the indentation, or quote the text",
}
"""Words for faults that YAML's parsers describe by their own work."""
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_NUMBERS = {"integer", "number"}


class Lines:
    """The lines of a file that can be composed. It is composed once, when it is first asked."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._nodes: list[Any] | None = None

    def locate(self, number: int, item: int, path: str) -> int:
        """The line, from 1, of a field (such as `spec.roles[0].app`); of its parent when absent.

        number: which document, from 0; item: which item of a `List` or of an array, or -1.
        """
        return self._found(number, item, path)[0] + 1

    def scalar(self, number: int, item: int, path: str) -> yaml.ScalarNode | None:
        """The scalar of a field, as it is written. None for other values, and for an absent field."""
        _, node, whole = self._found(number, item, path)
        return node if whole and isinstance(node, yaml.ScalarNode) else None

    def _composed(self) -> list[Any]:
        """The nodes; none of JSON with escapes that YAML does not know: its fields then have the line of the file."""
        try:
            return list(yaml.compose_all(self._data, Loader=yaml.CSafeLoader))
        except yaml.YAMLError:
            return []

    def _found(self, number: int, item: int, path: str) -> tuple[int, yaml.Node, bool]:
        """The line, from 0, and the node of a field. False: they are those of the nearest parent."""
        if self._nodes is None:
            self._nodes = self._composed()
        if number >= len(self._nodes):
            return 0, yaml.ScalarNode("", ""), False
        place, line = self._nodes[number], _line(self._nodes[number])
        steps = [bracketed or plain for bracketed, plain in _STEP.findall(path)]
        within = [] if isinstance(place, yaml.SequenceNode) else ["items"]
        for step in ([*within, str(item)] if item >= 0 else []) + steps:
            found = _child(place, step)
            if found is None:
                return line, place, False
            line, place = found
        return line, place, True


def quoting(written: yaml.ScalarNode, wanted: str, value: Any) -> str:
    """Return what to write so that YAML reads a value of the wanted type (of JSON Schema), or `""`. value: as YAML reads it."""
    plain, text = not written.style, written.value
    if wanted == "string" and plain and not isinstance(value, str):
        return f'YAML reads {text or "an empty value"} as {_meaning(value)}: write "{text}"'
    if not plain and "\n" not in text and _fits(text, wanted):
        return f"write {text} without quotes"
    return ""


def fault_of(error: yaml.YAMLError) -> tuple[int, str]:
    """The line, from 1, and the reason for which YAML cannot be read."""
    mark = getattr(error, "problem_mark", None)
    parts = (getattr(error, "problem", None), getattr(error, "context", None))
    line = mark.line + 1 if mark else 1
    if parts[0] in _CLEARER:
        return line, _CLEARER[parts[0]]
    return line, ", ".join(str(part) for part in parts if part) or " ".join(str(error).split())


def _meaning(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case datetime():
            return "a time"
        case date():
            return "a date"
    return "another type"


def _fits(text: str, wanted: str) -> bool:
    if wanted in _NUMBERS:
        return re.fullmatch(r"-?[0-9]{1,18}" if wanted == "integer" else r"-?[0-9]{1,18}(\.[0-9]+)?", text) is not None
    return wanted == "boolean" and text in ("true", "false")


def _child(node: yaml.Node, step: str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((_line(key), value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        child = node.value[int(step)]
        return _line(child), child
    return None


def _line(node: Any) -> int:
    """The line, from 0, where a node begins."""
    return int(node.start_mark.line)
