"""Patterns of files that a source leaves out, in the language of gitignore.

A regular expression made of a pattern can take exponential time, and a Source's patterns are a tenant's own. Here a pattern takes
at most its length times that of the path, and all files of a source together have a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

IGNORE_FILE = ".tenantryignore"
"""A file at the root of a source's path that holds patterns, one a line."""
LONGEST_PATTERN = 256
MOST_PATTERNS = 200
LARGEST_IGNORE_FILE = 64 << 10
MOST_STEPS = 100_000_000
"""Comparisons of one list of files, which take about ten seconds."""
_ANY = None
"""A step for any number of characters, or of folders."""
_Accepts = Callable[[str], bool]
_Name = str | tuple[_Accepts | None, ...]
"""One name of a path: as it is, or a condition for each character."""


class BadPatternError(ValueError):
    """A pattern that cannot be used. line: from 1, of the file."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True)
class _Pattern:
    """steps: a name each, or any folders. again: what it matches is read after all."""

    steps: tuple[_Name | None, ...]
    again: bool
    folders_only: bool


class IgnoreRules:
    """The patterns of a source. The last one that matches decides; below a folder that is left out nothing is read."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Raises BadPatternError."""
        self._patterns = [
            made for number, line in enumerate(patterns, 1) if (made := _parsed(line.rstrip("\r\n"), number)) is not None
        ]
        if len(self._patterns) > MOST_PATTERNS:
            raise BadPatternError(0, f"more than {MOST_PATTERNS} patterns")
        self._folder = lru_cache(maxsize=4096)(self._leaves_out_folder)
        self._steps = 0

    def leaves_out(self, path: str, folder: bool = False) -> bool:
        """Return True if a file, or a folder, is left out. path: relative to the root of the source, with `/`."""
        if not self._patterns:
            return False
        above, _, _ = path.rpartition("/")
        return bool(above and self._folder(above)) or self._decide(path, folder)

    def _leaves_out_folder(self, path: str) -> bool:
        return self.leaves_out(path, folder=True)

    def _decide(self, path: str, folder: bool) -> bool:
        names = path.split("/")
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders_only) and self._matches(names, pattern.steps, self._is_named):
                return not pattern.again
        return False

    def _is_named(self, step: _Name, name: str) -> bool:
        return step == name if isinstance(step, str) else self._matches(name, step, lambda accepts, one: accepts(one))

    def _matches(self, parts: Sequence[str], steps: Sequence[Any], accepts: Callable[[Any, str], bool]) -> bool:
        """Return True if the steps accept all parts. Only the last `_ANY` is tried for more parts: the earlier ones need none."""
        part = step = behind = resumed = 0
        while part < len(parts):
            self._count()
            more = step < len(steps)
            if more and steps[step] is _ANY:
                step += 1
                behind, resumed = step, part
            elif more and accepts(steps[step], parts[part]):
                part, step = part + 1, step + 1
            elif behind:
                resumed += 1
                part, step = resumed, behind
            else:
                return False
        return all(left is _ANY for left in steps[step:])

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise BadPatternError(0, "the patterns take too long for so many files")


def check_size(size: int) -> None:
    """Raises BadPatternError for an ignore file of more bytes than are read."""
    if size > LARGEST_IGNORE_FILE:
        raise BadPatternError(0, f"is larger than {LARGEST_IGNORE_FILE // 1024} KiB")


def patterns_of(data: bytes) -> list[str]:
    """Return the lines of an ignore file. Raises BadPatternError."""
    check_size(len(data))
    try:
        return data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise BadPatternError(data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None


def _parsed(line: str, number: int) -> _Pattern | None:
    """The pattern of a line; None for an empty line and for a comment."""
    if len(line) > LONGEST_PATTERN:
        raise BadPatternError(number, f"a pattern has at most {LONGEST_PATTERN} characters")
    text = re.sub(r"(?<!\\) +$", "", line)
    if not text or text.startswith("#"):
        return None
    again = text.startswith("!")
    text = text[again:]
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    names = text.removeprefix("/").split("/")
    steps: tuple[_Name | None, ...] = tuple(_ANY if name == "**" else _compiled(name, number) for name in names)
    if not anchored:
        steps = (_ANY, *steps)
    if steps[-1] is _ANY:
        steps = (*steps, (_ANY,))  # what is below a folder, and not the folder itself
    return _Pattern(steps, again, folders_only) if text else None


def _compiled(name: str, number: int) -> _Name:
    """One name of a path; a text where nothing of it is special."""
    steps: list[_Accepts | None] = []
    plain: list[str] = []
    position = 0
    while position < len(name):
        character, position = name[position], position + 1
        if character == "*":
            if not steps or steps[-1] is not _ANY:
                steps.append(_ANY)
            continue
        if character == "?":
            steps.append(lambda _: True)
            continue
        if character == "[":
            accepts, position = _set_at(name, position, number)
            steps.append(accepts)
            continue
        if character == "\\":
            if position == len(name):
                raise BadPatternError(number, "a pattern does not end in a single backslash")
            character, position = name[position], position + 1
        steps.append(character.__eq__)
        plain.append(character)
    return "".join(plain) if len(plain) == len(steps) else tuple(steps)


def _set_at(name: str, position: int, number: int) -> tuple[_Accepts, int]:
    """The characters of `[a-z]`, which begin at that position, and the position behind them."""
    negated = name[position : position + 1] in ("!", "^")
    position += negated
    ranges: list[tuple[str, str]] = []
    first = True
    while position < len(name) and (first or name[position] != "]"):
        first = False
        low, position = _character_at(name, position)
        high = low
        if name[position : position + 1] == "-" and position + 1 < len(name) and name[position + 1] != "]":
            high, position = _character_at(name, position + 1)
        ranges.append((low, high))
    if position >= len(name):
        raise BadPatternError(number, "a [ is not closed")

    def accepts(character: str) -> bool:
        return any(low <= character <= high for low, high in ranges) != negated

    return accepts, position + 1


def _character_at(name: str, position: int) -> tuple[str, int]:
    escaped = name[position] == "\\" and position + 1 < len(name)
    return name[position + escaped], position + escaped + 1
