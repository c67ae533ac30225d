"""Find where YAML is nested deeper than a limit, also where the parser refuses the file for it first.

libyaml scans up to 1,024 characters ahead of its events, because they may be the key of a mapping. It refuses a thousand levels
in newer versions, so `[[[[...` fails before its first event. What stands in front of the refused place is parsed once more: there
nothing is refused, and every event comes.
"""

from __future__ import annotations

import codecs
from typing import Any

import yaml


def deep_line(source: str | bytes, levels: int) -> int | None:
    """Return the line, from 1, that first is nested deeper than `levels`; None where no line is, as far as it is YAML."""
    try:
        return _line_of_events(source, levels)
    except yaml.YAMLError as error:
        return deep_line_before(error, source, levels)


def deep_line_before(error: yaml.YAMLError, source: str | bytes, levels: int) -> int | None:
    """Return what `deep_line` does, of the text in front of the place that the parser refused with this error."""
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return None
    text = source if isinstance(source, str) else _decoded(source)
    try:
        return _line_of_events(text[: mark.index], levels)
    except yaml.YAMLError:
        return None


def _line_of_events(source: str | bytes, levels: int) -> int | None:
    depth = 0
    for event in yaml.parse(source, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > levels:
                mark: Any = event.start_mark
                return int(mark.line) + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None


def _decoded(raw: bytes) -> str:
    """The characters as the parser counts them. It knows UTF-16 by its byte order mark."""
    return raw.decode("utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig", "replace")
