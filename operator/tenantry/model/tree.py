"""The declarations of a source at one moment: its documents, with their places, and its problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple

import orjson

from tenantry.model.resource import Document, Ref, kept_json, ref_of
from tenantry.model.verdicts import Problem

SUFFIXES = (".yaml", ".yml")
MANIFEST = "app.yaml"
"""It makes a folder a package source, which holds no declarations."""


def is_yaml(name: str) -> bool:
    """Return True for the name of a file that a source reads, in upper or lower case: some editors and systems write `.YAML`."""
    return name.lower().endswith(SUFFIXES)


class Place(NamedTuple):
    """The place of a document. file: relative to the source's root; line: its first, from 1; document and item: positions from
    0.

    `item` is the position within a `List`, -1 outside of one.
    """

    file: str
    line: int
    document: int = 0
    item: int = -1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Declared:
    """One document of a source, admitted: with its schema's defaults. digest: of its file's bytes; sealed: encrypted there.

    It is kept as JSON: a source holds all of its documents for as long as it runs, and trees of values take ten times the room.
    """

    raw: bytes
    ref: Ref
    place: Place
    digest: str = ""
    sealed: bool = False

    @classmethod
    def of(cls, document: Document, place: Place, digest: str = "", sealed: bool = False) -> Declared:
        """Raises what orjson raises for what is no JSON."""
        kind, namespace, name = ref_of(document)
        return cls(kept_json(document), Ref(intern(kind), intern(namespace), name), place, digest, sealed)

    def with_document(self, document: Document) -> Declared:
        """The same place with another document."""
        return Declared.of(document, self.place, self.digest, self.sealed)

    @property
    def document(self) -> dict[str, Any]:
        """Made anew at each call: the caller's own."""
        document: dict[str, Any] = orjson.loads(self.raw)
        return document


@dataclass(frozen=True)
class SourceProblem:
    """The refusal of a file, or of a document in it. line: from 1, 0 when it concerns the file as a whole."""

    file: str
    line: int
    problem: Problem

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.problem}"


Locate = Callable[[Place, str], int]
"""The line of a field of the document at a place."""


class Origin(NamedTuple):
    """The commit that last changed a document. author: `Name <address>`, `""` where that is older than the known history.

    line: of the document in that commit's file, 0 where it is the present one.
    """

    commit: str
    author: str = ""
    line: int = 0


def _no_origin(place: Place) -> None:
    return None


def _no_removal(file: str, ref: Ref) -> None:
    return None


@dataclass(frozen=True)
class Revision:
    """The state of a repository that a tree shows. rewrote: the commit that was applied before and is not in its history."""

    commit: str
    rewrote: str = ""
    origin: Callable[[Place], Origin | None] = field(default=_no_origin, compare=False, repr=False)
    """The commit that wrote the document at a place of the tree."""
    removal: Callable[[str, Ref], Origin | None] = field(default=_no_removal, compare=False, repr=False)
    """The commit that took an object's document out of a file, which may be gone."""


def _first_line(place: Place, field_: str) -> int:
    return place.line


@dataclass(frozen=True)
class Tree:
    """A source at one moment. `documents` hold nothing of a broken file. `locate` finds a field's line when there is an error.

    held: the reason why a newer state of a repository is not taken, `documents` being the last good one. away: the time and
    reason since the repository cannot be read, `""` when it can; refusal: the reason of a remote that refuses access, `""`
    otherwise.
    """

    documents: tuple[Declared, ...] = ()
    problems: tuple[SourceProblem, ...] = ()
    revision: Revision | None = None
    held: tuple[SourceProblem, ...] = ()
    away: str = ""
    refusal: str = ""
    passed_over: int = 0
    """The number of documents that other programs read."""
    empty: frozenset[str] = frozenset()
    """Files of a folder that hold no document. In a repository a commit has decided that."""
    locate: Locate = field(default=_first_line, compare=False, repr=False)

    @property
    def broken(self) -> bool:
        """True when something of the source could not be read: pruning is held."""
        return bool(self.problems)

    @property
    def exposed(self) -> tuple[Declared, ...]:
        """Secrets that stand in a repository as anybody can read them."""
        if self.revision is None:
            return ()
        return tuple(each for each in self.documents if each.ref.kind == "Secret" and not each.sealed)

    def origin(self, place: Place) -> Origin | None:
        """The commit that wrote a document; None without a repository."""
        return self.revision.origin(place) if self.revision else None

    def removal(self, file: str, ref: Ref) -> Origin | None:
        """The commit that removed an object's document; None without a repository."""
        return self.revision.removal(file, ref) if self.revision else None


def gathered(documents: tuple[Declared, ...], problems: Iterable[SourceProblem], locate: Locate, passed_over: int = 0) -> Tree:
    """The tree of all that was read: in order, with nothing of a broken file."""
    found = (*problems, *_declared_twice(documents))
    broken = {problem.file for problem in found}
    sound = tuple(each for each in documents if each.place.file not in broken)
    return Tree(sound, tuple(sorted(found, key=lambda p: (p.file, p.line))), passed_over=passed_over, locate=locate)


def _declared_twice(documents: Iterable[Declared]) -> Iterator[SourceProblem]:
    """A problem for each document whose object another one, before it, declares already."""
    first: dict[Any, Place] = {}
    for each in documents:
        if each.ref in first:
            yield at(each.place, Problem("metadata.name", f"{each.ref} is already declared at {first[each.ref]}"))
        else:
            first[each.ref] = each.place


def at(place: Place, problem: Problem, line: int = 0) -> SourceProblem:
    """A problem of a document, at that line or its first."""
    return SourceProblem(place.file, line or place.line, problem)
