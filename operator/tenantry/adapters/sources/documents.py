"""The bytes of YAML files into declared documents: parsed, admitted, each with its place; what is wrong becomes a problem."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson
import structlog

from tenantry.adapters.sources.packages import Refused, tenants_of
from tenantry.adapters.sources.read import Lines, Unreadable, read
from tenantry.adapters.sources.sops import Part, Sealed, Sops
from tenantry.model.resource import Document
from tenantry.model.tree import Declared, Place, SourceProblem, Tree
from tenantry.model.verdicts import Halt, Invalid, Problem, described

Admit = Callable[[Document], Document]
"""Defaults and validation of a new document. Raises Invalid."""
Fill = Callable[[Declared, Mapping[str, str]], Awaitable[Document]]
"""The Package with the sha256 of what its path names; the tenants' names by namespace. Raises Refused."""
Locate = Callable[[Place, str], int]

SUFFIXES = (".yaml", ".yml")
MANIFEST = "app.yaml"
MOST_FILES = 50_000
LARGEST_TREE = 256 * 2**20
AT_A_TIME = 2**14
"""Bytes of YAML that are parsed before they are admitted."""
MOST_PROBLEMS = 100
"""Of one file: what is wrong beyond these is not looked for."""

log = structlog.get_logger(__name__)


def declare(
    contents: Iterable[tuple[str, bytes]], admit: Admit, sops: Sops, problems: list[SourceProblem]
) -> tuple[Declared, ...]:
    """The documents of files, each a name and its bytes, decrypted; what is wrong with them is added to the problems.

    Files are parsed, then admitted, some at a time: faster than one after the other, and what is parsed takes much room.
    """
    documents: list[Declared] = []
    for batch in _batches(contents):
        parsed = [(name, data, _parsed(name, data, sops, problems)) for name, data in batch]
        for name, data, parts in parsed:
            sound, wrong = _all_admitted(data, parts, admit)
            documents += sound
            problems += wrong
            if len(wrong) > MOST_PROBLEMS:
                problems[-1] = whole(name, f"has more than {MOST_PROBLEMS} problems")
    return tuple(documents)


def _batches(contents: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for name, data in contents:
        batch.append((name, data))
        size += len(data)
        if size >= AT_A_TIME:
            yield batch
            batch, size = [], 0
    yield batch


def _all_admitted(data: bytes, parts: Iterable[Part], admit: Admit) -> tuple[list[Declared], list[SourceProblem]]:
    """The documents of a file, and one problem more than are told at most."""
    digest, lines = hashlib.sha256(data).hexdigest(), Lines(data)
    sound: list[Declared] = []
    wrong: list[SourceProblem] = []
    for place, value, sealed in parts:
        try:
            sound.append(_kept(_admitted(value, admit), place, digest, sealed))
        except Invalid as error:
            for problem in error.problems[: MOST_PROBLEMS + 1 - len(wrong)]:
                wrong.append(at(place, problem, _line(lines, place, problem.field)))
        except Exception as bug:
            log.exception("checking a document failed", place=str(place))
            wrong.append(at(place, Problem("", described(bug))))
        if len(wrong) > MOST_PROBLEMS:
            break
    return sound, wrong


async def with_packages(
    documents: Iterable[Declared], fill: Fill, locate: Locate, problems: list[SourceProblem]
) -> tuple[Declared, ...]:
    """The documents with the sha256 of every package that a path names; what is refused is left out, and told."""
    documents = tuple(documents)
    tenants = tenants_of(each.document for each in documents if each.ref.kind == "Tenant")
    filled = []
    for each in documents:
        try:
            filled.append(each.with_document(await fill(each, tenants)) if each.ref.kind == "Package" else each)
        except Refused as error:
            problems += [at(each.place, p, locate(each.place, p.field)) for p in error.problems]
        except (Halt, OSError):
            raise  # of the platform's own store: another look may find it well
        except Exception as bug:
            log.exception("making a package failed", place=str(each.place))
            problems.append(at(each.place, Problem("", described(bug))))
    return tuple(filled)


def gathered(documents: tuple[Declared, ...], problems: Iterable[SourceProblem], locate: Locate) -> Tree:
    """The tree of all that was read: in order, with nothing of a broken file."""
    found = (*problems, *_declared_twice(documents))
    broken = {problem.file for problem in found}
    sound = tuple(each for each in documents if each.place.file not in broken)
    return Tree(sound, tuple(sorted(found, key=lambda p: (p.file, p.line))), locate=locate)


def _declared_twice(documents: Iterable[Declared]) -> Iterator[SourceProblem]:
    """A problem for each document whose object another one, before it, declares already."""
    first: dict[Any, Place] = {}
    for each in documents:
        if each.ref in first:
            yield at(each.place, Problem("metadata.name", f"{each.ref} is already declared at {first[each.ref]}"))
        else:
            first[each.ref] = each.place


def line_of(data: bytes, place: Place, field: str) -> int:
    """The line of a field in the file's bytes; the document's first for the whole document. Raises Unreadable."""
    return _line(Lines(data), place, field)


def _line(lines: Lines, place: Place, field: str) -> int:
    return lines.locate(place.document, place.item, field) if field else place.line


def at(place: Place, problem: Problem, line: int = 0) -> SourceProblem:
    """A problem of a document, at that line or its first."""
    return SourceProblem(place.file, line or place.line, problem)


def whole(file: str, reason: str) -> SourceProblem:
    """A problem of a file as a whole."""
    return SourceProblem(file, 0, Problem("", reason))


def _parsed(name: str, data: bytes, sops: Sops, problems: list[SourceProblem]) -> list[Part]:
    """The documents of a file; none of a broken one, which is added to the problems."""
    try:
        return sops.opened(list(_parts(data, name)))
    except Unreadable as error:
        problems.append(SourceProblem(name, error.line, Problem("", error.reason)))
    except Sealed as error:
        problems.append(at(error.place, error.problem, line_of(data, error.place, error.problem.field)))
    except Exception as bug:
        log.exception("reading a file failed", file=name)
        problems.append(whole(name, described(bug)))
    return []


def _parts(data: bytes, name: str) -> Iterator[Part]:
    """Each document with its place; a `List` counts for its items. Raises Unreadable."""
    lines = Lines(data)
    for raw in read(data):
        value, place = raw.value, Place(name, raw.line, raw.number)
        if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
            for number, item in enumerate(value["items"]):
                yield Part(place._replace(line=lines.locate(raw.number, number, ""), item=number), item)
        else:
            yield Part(place, value)


def _kept(document: Document, place: Place, digest: str, sealed: bool) -> Declared:
    try:
        return Declared.of(document, place, digest, sealed)
    except orjson.JSONEncodeError as error:
        raise Invalid((Problem("", f"cannot be written as JSON: {error}"),)) from error


def _admitted(value: Any, admit: Admit) -> Document:
    if not isinstance(value, dict):
        raise Invalid((Problem("", "must be a mapping with apiVersion, kind and metadata"),))
    return admit(value)
