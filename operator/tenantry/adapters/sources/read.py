"""YAML and JSON files into documents: strict, bounded, and as fast as libyaml's events allow.

The values are built from events with an own stack: composing nodes recurses in C and dies on deep input. A document's first line
is kept; those of fields are found by composing the file again (packages/yaml_text), once there is an error to report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple

import yaml

from tenantry.adapters.sources.json_documents import DuplicateKey, NotJson, begins_as_json, depth_and_size, json_documents
from tenantry.adapters.sources.scalars import resolve
from tenantry.packages.yaml_depth import deep_line_before
from tenantry.packages.yaml_text import fault_of

LARGEST_FILE = 16 * 2**20
DEEPEST = 64
MOST_VALUES = 500_000
MOST_DOCUMENTS = 20_000
MOST_ALIASED = 100_000
"""Values that aliases may stand for in one file, counted as often as they are repeated."""

_MERGE = "<<"
_NONE = object()
_TOO_DEEP = f"nested deeper than {DEEPEST} levels"


class Unreadable(Exception):  # noqa: N818 - it says what is wrong with the input
    """The file is no YAML that can be applied. line: from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


class Raw(NamedTuple):
    """One YAML document. line: its first, from 1; number: its position in the file, from 0."""

    line: int
    number: int
    value: Any


def read(data: bytes) -> list[Raw]:
    """The documents of a file, empty ones left out. Raises Unreadable."""
    if len(data) > LARGEST_FILE:
        raise Unreadable(1, f"the file is larger than {LARGEST_FILE // 2**20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(data.count(b"\n", 0, error.start) + 1, "the file is not UTF-8") from error
    fault: NotJson | None = None
    if begins_as_json(text):
        try:
            return list(_of_json(text))
        except DuplicateKey as twice:
            raise Unreadable(twice.line, twice.reason) from None
        except NotJson as error:
            fault = error  # YAML in flow style begins alike
    try:
        return list(_documents(text))
    except yaml.YAMLError as error:
        line = deep_line_before(error, text, DEEPEST)
        reason = (line, _TOO_DEEP) if line else (fault.line, fault.reason) if fault else fault_of(error)
        raise Unreadable(*reason) from error


def _of_json(text: str) -> Iterator[Raw]:
    count = 0
    for number, (line, value) in enumerate(json_documents(text)):
        deepest, size = depth_and_size(value)
        count += size
        if deepest > DEEPEST:
            raise Unreadable(line, _TOO_DEEP)
        if count > MOST_VALUES:
            raise Unreadable(line, f"the file holds more than {MOST_VALUES:,} values")
        if number >= MOST_DOCUMENTS:
            raise Unreadable(line, f"the file holds more than {MOST_DOCUMENTS:,} documents")
        yield Raw(line, number, value)


def _documents(text: str) -> Iterator[Raw]:
    next_event: Callable[[], Any] = yaml.CSafeLoader(text).get_event
    next_event()
    number = 0
    builder = _Builder(next_event)
    while isinstance(next_event(), yaml.DocumentStartEvent):
        first = next_event()
        if number >= MOST_DOCUMENTS:
            raise _refused(first, f"the file holds more than {MOST_DOCUMENTS:,} documents")
        value = builder.build(first)
        if value is not None:
            yield Raw(first.start_mark.line + 1, number, value)
        next_event()
        number += 1


@dataclass(slots=True)
class _Frame:
    """A container that is being filled. key: the one that waits for its value; begun: the count of values before it."""

    container: Any
    anchor: str | None
    begun: int
    key: Any = _NONE
    merges: list[Any] = field(default_factory=list)


class _Builder:
    """Builds the values of a file's documents from its events."""

    def __init__(self, next_event: Callable[[], yaml.Event]) -> None:
        self._next = next_event
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._aliased = 0

    def build(self, event: yaml.Event) -> Any:
        """The value of the document that begins with this event. Raises Unreadable."""
        self._anchors.clear()
        while True:
            done = self._take(event)
            if done is not _NONE and not self._stack:
                return done
            if done is not _NONE:
                self._put(done, event)
            if self._count > MOST_VALUES:
                raise _refused(event, f"the file holds more than {MOST_VALUES:,} values")
            event = self._next()

    def _take(self, event: yaml.Event) -> Any:
        """The value that this event completes, or _NONE."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            return self._scalar(event)
        if kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            return self._open(event, {} if kind is yaml.MappingStartEvent else [])
        if kind is yaml.AliasEvent:
            return self._alias(event)
        return self._close()

    def _scalar(self, event: Any) -> Any:
        self._count += 1
        if event.tag is not None:
            raise _refused(event, f"the tag {event.tag} is not allowed")
        value = event.value
        if event.implicit[0] and not event.style:
            try:
                value = resolve(value)
            except ValueError as error:
                raise _refused(event, str(error)) from error
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _open(self, event: Any, container: Any) -> Any:
        if event.tag is not None:
            raise _refused(event, f"the tag {event.tag} is not allowed")
        if len(self._stack) >= DEEPEST:
            raise _refused(event, _TOO_DEEP)
        self._stack.append(_Frame(container, event.anchor, self._count))
        self._count += 1
        return _NONE

    def _close(self) -> Any:
        frame = self._stack.pop()
        for merged in frame.merges:
            for key, value in merged.items():
                frame.container.setdefault(key, value)
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.container, self._count - frame.begun)
        return frame.container

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _refused(event, f"the alias *{event.anchor} has no anchor before it")
        value, weight = self._anchors[event.anchor]
        self._count += weight
        self._aliased += weight
        if self._aliased > MOST_ALIASED:
            raise _refused(event, f"aliases repeat more than {MOST_ALIASED:,} values")
        return value

    def _put(self, value: Any, event: Any) -> None:
        frame = self._stack[-1]
        if type(frame.container) is list:
            frame.container.append(value)
        elif frame.key is _NONE:
            frame.key = self._key(frame, value, event)
        else:
            key, frame.key = frame.key, _NONE
            if key is not _MERGE_KEY:
                frame.container[key] = value
            else:
                frame.merges += _mappings(value, event)

    def _key(self, frame: _Frame, value: Any, event: Any) -> Any:
        if value == _MERGE and event.implicit[0] and not event.style:
            return _MERGE_KEY
        key = intern(value if type(value) is str else _key_text(value, event))
        if key in frame.container:
            raise _refused(event, f"the key {key!r} appears twice")
        frame.container[key] = None
        return key


_MERGE_KEY = object()


def _key_text(value: Any, event: Any) -> str:
    """A key that is no string, as the API server's parser writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _refused(event, "a key must be a plain value")


def _mappings(value: Any, event: Any) -> list[dict[str, Any]]:
    merged = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in merged):
        raise _refused(event, "`<<` merges only mappings")
    return merged


def _refused(event: Any, reason: str) -> Unreadable:
    return Unreadable(event.start_mark.line + 1, reason)
