"""The commit and author of each document, from the known history of its file.

A document is compared by its text, from `---` to `---`. Its commit is the oldest one from which on the text has stood in
the file. That commit holds the document at the line that is named, and its author wrote it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tenantry.model.resource import Ref
from tenantry.model.tree import Origin, Place, is_yaml

MOST_FILES = 50
"""The number of most recently changed files whose documents are credited singly. For other files the file's last commit
counts."""
MOST_BYTES = 8 * 2**20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SEPARATOR = re.compile(rb"^(?:---(?=\s|$)|\.\.\.\s*$)")

Version = Mapping[bytes, int]
"""The documents of one version of a file: their texts, each with its first line, from 1."""
Versions = Mapping[bytes, Mapping[str, Version]]
"""By path and commit; a commit without the file is left out."""
_ABSENT: Version = {}


class Commit(NamedTuple):
    """A commit of the log. parents: the next ones of the log; files: what it changed; of a merge, what differs from all."""

    origin: Origin
    parents: tuple[str, ...]
    files: tuple[bytes, ...]


@dataclass(frozen=True)
class History:
    """The known history of a commit. edges: the commits where it is cut off; they seem to have created every file."""

    tip: str
    commits: Mapping[str, Commit]
    edges: frozenset[str]
    versions: Versions = field(default_factory=dict)

    def origin(self, place: Place) -> Origin:
        """The commit that wrote a document, and its line there. The author is `""` where that is older than the known history."""
        versions = self.versions.get(place.file.encode())
        if versions is None:
            return self._of_file(place.file)
        above = [(first, text) for text, first in versions.get(self.tip, _ABSENT).items() if first <= place.line]
        if not above:
            return self._of_file(place.file)
        first, text = max(above)
        written = self._began(lambda commit: text in versions.get(commit, _ABSENT))
        if written is None:
            return Origin(self.tip)
        return self.commits[written].origin._replace(line=versions[written][text] + place.line - first)

    def removal(self, file: str, ref: Ref) -> Origin:
        """The commit that took an object's document out of a file."""
        versions = self.versions.get(file.encode())
        if versions is None:
            return self._of_file(file)
        removed = self._began(lambda commit: not _names(versions.get(commit, _ABSENT), ref))
        return self._of_file(file) if removed is None else self.commits[removed].origin

    def _of_file(self, file: str) -> Origin:
        path = file.encode()
        known = (each for oid, each in self.commits.items() if oid not in self.edges)
        return next((each.origin for each in known if path in each.files), Origin(self.tip))

    def _began(self, holds: Callable[[str], bool]) -> str | None:
        """The commit from which on something holds until the tip; None where it held at the edge of the known history already."""
        commit = next(iter(self.commits), "")
        while commit in self.commits and commit not in self.edges:
            parents = self.commits[commit].parents
            before = next((parent for parent in parents if holds(parent)), None)
            if before is None:
                # A parent that the log leaves out may have held it as well.
                return commit if all(parent in self.commits for parent in parents) else None
            commit = before
        return None


def parse_log(printed: bytes) -> dict[str, Commit]:
    """The commits of a log, newest first.

    Three zero bytes go before each commit, which is its id and parents, its author and its files. The first file comes after a
    newline, or, of a merge, after a zero byte more.
    """
    found: dict[str, Commit] = {}
    for block in printed.split(b"\0\0\0"):
        if parts := list(filter(None, block.split(b"\0"))):
            ids, author, *files = parts
            commit, *parents = ids.decode().split()
            name = _CONTROL.sub(" ", author.decode(errors="replace")).strip()[:200]
            files[:1] = [file.removeprefix(b"\n") for file in files[:1]]
            found[commit] = Commit(Origin(commit, name), tuple(parents), tuple(files))
    return found


def several_times_changed(commits: Mapping[str, Commit]) -> list[bytes]:
    """The YAML files that more than one commit changed, at most MOST_FILES: those that changed last."""
    times = Counter(file for each in commits.values() for file in each.files if is_yaml(file.decode(errors="replace")))
    return [file for file, count in times.items() if count > 1 and b"\n" not in file][:MOST_FILES]


def within_bytes(sizes: Iterable[tuple[bytes, Mapping[str, tuple[str, int]]]]) -> dict[bytes, Mapping[str, tuple[str, int]]]:
    """The files whose versions, (id, bytes) by commit, can be read within MOST_BYTES."""
    kept, left = {}, MOST_BYTES
    for file, versions in sizes:
        needed = sum(dict(versions.values()).values())
        if needed <= left:
            kept[file], left = versions, left - needed
    return kept


def parse_version(content: bytes) -> Version:
    """The documents of a file, without the blank lines around them."""
    found: dict[bytes, int] = {}
    lines = content.splitlines()
    starts = [0, *(number for number, line in enumerate(lines) if _SEPARATOR.match(line)), len(lines)]
    for start, end in pairwise(starts):
        held = lines[start:end]
        if held and _SEPARATOR.match(held[0]):
            held[0] = held[0][3:]
        while held and not held[-1].strip():
            held.pop()
        first = next((number for number, line in enumerate(held) if line.strip()), None)
        if first is not None:
            found.setdefault(b"\n".join(held[first:]), start + first + 1)
    return found


def _names(version: Version, ref: Ref) -> bool:
    """True when a document of this version names that kind and name."""
    name = ref.name.encode()
    return any(name in text and _word(ref.name).search(text) and _word(ref.kind).search(text) for text in version)


@lru_cache(256)
def _word(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w.-])" + re.escape(name.encode()) + rb"(?![\w.-])")
