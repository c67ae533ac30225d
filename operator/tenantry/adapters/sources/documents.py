"""The bytes of YAML files into declared documents: parsed, admitted, each with its place; what is wrong becomes a problem."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson
import structlog

from tenantry.adapters.sources.others import is_of_others, unbuilt
from tenantry.adapters.sources.packages import PackageRefused
from tenantry.adapters.sources.read import Unreadable, read
from tenantry.adapters.sources.scalars import resolve
from tenantry.adapters.sources.sops import OpenedDocument, Sealed, Sops
from tenantry.kinds.tenancy import tenants_of
from tenantry.model.resource import Document
from tenantry.model.tree import Declared, Locate, Place, SourceProblem, Tree, at, gathered
from tenantry.model.verdicts import Halt, Invalid, Problem, described
from tenantry.packages.yaml_text import Lines, quoting

Admit = Callable[[Document], Document]
"""Defaults and validation of a new document. Raises Invalid."""
Fill = Callable[[Declared, Mapping[str, str]], Awaitable[Document]]
"""The Package with the sha256 of what its path names; the tenants' names by namespace. Raises PackageRefused."""

MOST_FILES = 50_000
LARGEST_TREE = 256 * 2**20
AT_A_TIME = 2**14
"""Bytes of YAML that are parsed before they are admitted."""
MOST_PROBLEMS = 100
"""Of one file: what is wrong beyond these is not looked for."""

log = structlog.get_logger(__name__)


def declare(
    contents: Iterable[tuple[str, bytes]],
    admit: Admit,
    sops: Sops,
    problems: list[SourceProblem],
    passed_over: list[Place] | None = None,
) -> tuple[Declared, ...]:
    """The documents of files, each a name and its bytes, decrypted; what is wrong with them is added to the problems.

    Files are parsed, then admitted, some at a time: faster than one after the other, and what is parsed takes much room.

    passed_over: takes the places of documents that other programs read; they are problems where None.
    """
    documents: list[Declared] = []
    for batch in _batches(contents):
        parsed = [(name, data, _parsed(name, data, sops, problems, passed_over)) for name, data in batch]
        for name, data, parts in parsed:
            sound, wrong = _all_admitted(data, parts, admit)
            documents += sound
            problems += wrong
            if len(wrong) > MOST_PROBLEMS:
                problems[-1] = whole(name, f"has more than {MOST_PROBLEMS} problems")
    return tuple(documents)


def read_text(name: str, data: bytes, admit: Admit) -> Tree:
    """Read one text as a file of a source is read. Encrypted documents are problems. Blocks."""
    problems: list[SourceProblem] = []
    documents = declare([(name, data)], admit, Sops(), problems)
    return gathered(documents, problems, lambda place, field: line_of(data, place, field))


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


def _all_admitted(data: bytes, parts: Iterable[OpenedDocument], admit: Admit) -> tuple[list[Declared], list[SourceProblem]]:
    """Return the documents of a file, and one problem more than the limit of reported problems."""
    digest, lines = hashlib.sha256(data).hexdigest(), Lines(data)
    sound: list[Declared] = []
    wrong: list[SourceProblem] = []
    for place, value, sealed in parts:
        try:
            sound.append(_kept(_admitted(value, admit), place, digest, sealed))
        except Invalid as error:
            for problem in error.problems[: MOST_PROBLEMS + 1 - len(wrong)]:
                wrong.append(at(place, _explained(problem, lines, place), _line(lines, place, problem.field)))
        except Exception as bug:
            log.exception("checking a document failed", place=str(place))
            wrong.append(at(place, Problem("", described(bug))))
        if len(wrong) > MOST_PROBLEMS:
            break
    return sound, wrong


async def with_packages(
    documents: Iterable[Declared], fill: Fill, locate: Locate, problems: list[SourceProblem]
) -> tuple[Declared, ...]:
    """Return the documents with the sha256 of every package that a path names. Refused documents are reported and left out."""
    documents = tuple(documents)
    tenants = tenants_of(each.document for each in documents if each.ref.kind == "Tenant")
    filled = []
    for each in documents:
        try:
            filled.append(each.with_document(await fill(each, tenants)) if each.ref.kind == "Package" else each)
        except PackageRefused as error:
            problems += [at(each.place, p, locate(each.place, p.field)) for p in error.problems]
        except (Halt, OSError):
            raise  # a fault of the platform's store: the next try may work
        except Exception as bug:
            log.exception("making a package failed", place=str(each.place))
            problems.append(at(each.place, Problem("", described(bug))))
    return tuple(filled)


def line_of(data: bytes, place: Place, field: str) -> int:
    """The line of a field in the file's bytes; the document's first for the whole document. Raises Unreadable."""
    return _line(Lines(data), place, field)


def _line(lines: Lines, place: Place, field: str) -> int:
    return lines.locate(place.document, place.item, field) if field else place.line


def _explained(problem: Problem, lines: Lines, place: Place) -> Problem:
    """The problem, with what to write where YAML reads a word otherwise than it was meant."""
    written = lines.scalar(place.document, place.item, problem.field) if problem.wanted else None
    if written is None:
        return problem
    hint = quoting(written, problem.wanted, written.value if written.style else resolve(written.value))
    return replace(problem, reason=f"{problem.reason}; {hint}") if hint else problem


def whole(file: str, reason: str) -> SourceProblem:
    """A problem of a file as a whole."""
    return SourceProblem(file, 0, Problem("", reason))


def _parsed(
    name: str, data: bytes, sops: Sops, problems: list[SourceProblem], passed_over: list[Place] | None
) -> list[OpenedDocument]:
    """The documents of a file; none of a broken one, which is added to the problems."""
    try:
        parts = list(_parts(data, name))
        return sops.opened(parts if passed_over is None else list(_ours(parts, problems, passed_over)))
    except Unreadable as error:
        problems.append(SourceProblem(name, error.line, Problem("", error.reason)))
    except Sealed as error:
        problems.append(at(error.place, error.problem, line_of(data, error.place, error.problem.field)))
    except Exception as bug:
        log.exception("reading a file failed", file=name)
        problems.append(whole(name, described(bug)))
    return []


def _ours(parts: Iterable[OpenedDocument], problems: list[SourceProblem], passed_over: list[Place]) -> Iterator[OpenedDocument]:
    """The documents that Tenantry reads. Those that have to be built first are problems."""
    for part in parts:
        if reason := unbuilt(part.place.file, part.value):
            problems.append(at(part.place, Problem("", reason)))
        elif is_of_others(part.value):
            passed_over.append(part.place)
        else:
            yield part


def _parts(data: bytes, name: str) -> Iterator[OpenedDocument]:
    """Each document with its place; a `List`, and an array as `get -o json` writes it, count for their items.

    Raises Unreadable.
    """
    lines = Lines(data)
    for raw in read(data):
        value, place = raw.value, Place(name, raw.line, raw.number)
        items = value.get("items") if isinstance(value, dict) and value.get("kind") == "List" else value
        if isinstance(items, list):
            for number, item in enumerate(items):
                yield OpenedDocument(place._replace(line=lines.locate(raw.number, number, ""), item=number), item)
        else:
            yield OpenedDocument(place, value)


def _kept(document: Document, place: Place, digest: str, sealed: bool) -> Declared:
    try:
        return Declared.of(document, place, digest, sealed)
    except orjson.JSONEncodeError as error:
        raise Invalid((Problem("", f"cannot be written as JSON: {error}"),)) from error


def _admitted(value: Any, admit: Admit) -> Document:
    if not isinstance(value, dict):
        raise Invalid((Problem("", "must be a mapping with apiVersion, kind and metadata"),))
    return admit(value)
