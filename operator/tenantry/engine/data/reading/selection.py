"""`select`: columns, and rows of related tables along declared foreign keys: `Name,Album(Title,Artist(Name))`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NoReturn

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.packages.manifest import Grant
from tenantry.rest.bodies import invalid

DEEPEST = 4
"""Levels of related tables."""
MOST_TABLES = 8
"""Related tables of one request."""
LONGEST_NAME = 63
_HEAD = re.compile(
    r"(?:(?P<alias>[A-Za-z][A-Za-z0-9_]*):)?(?P<table>[A-Za-z][A-Za-z0-9_]*)"
    r"(?:!(?P<column>(?!(?:one|many)[!(])[A-Za-z][A-Za-z0-9_]*))?(?:!(?P<side>one|many))?\("
)


@dataclass(frozen=True)
class Relation:
    """A foreign key seen from one of its tables. pairs: a column of this table and one of the other. many: rows of the other
    table may be many."""

    other: Exposed
    pairs: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    many: bool

    def spelled(self, name: str) -> str:
        """The way to name it in `select`."""
        return f"{name}!{self.key[0]}!{'many' if self.many else 'one'}(...)"


@dataclass(frozen=True)
class Embedded:
    """Rows of a related table within a row. name: of the field that holds them."""

    name: str
    relation: Relation
    selection: Selection


@dataclass(frozen=True)
class Selection:
    """The fields of a row, in the order of the answer: columns by name, and related rows."""

    fields: tuple[str | Embedded, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(field if isinstance(field, str) else field.name for field in self.fields)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table itself."""
        return tuple(field for field in self.fields if isinstance(field, str))

    @cached_property
    def embedded(self) -> tuple[Embedded, ...]:
        """The related tables."""
        return tuple(field for field in self.fields if isinstance(field, Embedded))


@dataclass(frozen=True)
class Visible:
    """The tables of an app that its caller may read. granted: the caller's roles by app."""

    exposure: Exposure
    granted: Mapping[str, str]

    def allowed(self, exposed: Exposed) -> frozenset[Grant]:
        """Return the actions that the caller may take on a table."""
        return self.exposure.allowed(exposed.name, self.granted)

    def relations(self, exposed: Exposed, name: str) -> list[Relation]:
        """The foreign keys between two tables. None for a table that the caller may not read, as for an unknown one."""
        if not self.exposure.has(name) or "read" not in self.exposure.allowed(name, self.granted):
            return []
        other = self.exposure.table(name)
        found = [
            Relation(other, tuple(zip(key.columns, key.to, strict=True)), key.columns, many=False)
            for key in exposed.declared.foreign_keys
            if key.references == name
        ]
        found += [
            Relation(other, tuple(zip(key.to, key.columns, strict=True)), key.columns, many=True)
            for key in other.declared.foreign_keys
            if key.references == exposed.name
        ]
        return found

    def related(self, exposed: Exposed) -> list[str]:
        """The names of the tables that can be embedded."""
        return [table.name for table in self.exposure.manifest.tables if self.relations(exposed, table.name)]


def parse_select(exposed: Exposed, text: str, visible: Visible | None = None) -> Selection:
    """The fields that `select` names; all columns for `*`. visible: the tables that may be embedded, none without it.

    Raises Invalid."""
    if text == "*":
        return _every(tuple(exposed.columns))
    return _Parser(visible).selection(exposed, text, 0)


@lru_cache
def _every(columns: tuple[str, ...]) -> Selection:
    return Selection(columns)


class _Parser:
    def __init__(self, visible: Visible | None) -> None:
        self._visible = visible
        self._tables = 0

    def selection(self, exposed: Exposed, text: str, depth: int) -> Selection:
        fields: dict[str, str | Embedded] = {}
        for term in _terms(text):
            if "(" in term:
                embedded = self._embedded(exposed, term, depth + 1)
                if embedded.name in fields:
                    _refuse(f"two fields are named {embedded.name}; give one another name, such as other:{term[:64]}")
                fields[embedded.name] = embedded
                continue
            for name in exposed.columns if term == "*" else (term,):
                if name not in exposed.columns:
                    _refuse(f"there is no column {name[:64]!r} in {exposed.name}")
                if isinstance(fields.get(name), Embedded):
                    _refuse(f"two fields are named {name}; give the related rows another name, such as other:{name}(...)")
                fields.setdefault(name, name)
        return Selection(tuple(fields.values()))

    def _embedded(self, exposed: Exposed, term: str, depth: int) -> Embedded:
        head = _HEAD.match(term)
        if head is None or not term.endswith(")") or len(head["alias"] or "") > LONGEST_NAME:
            _refuse(f"{term[:64]!r} is not a related table, such as Album(Title), Album!ArtistId(Title) or other:Album(Title)")
        if depth > DEEPEST:
            _refuse(f"related tables are nested deeper than {DEEPEST} levels")
        self._tables += 1
        if self._tables > MOST_TABLES:
            _refuse(f"names more than {MOST_TABLES} related tables")
        relation = self._relation(exposed, head)
        inner = self.selection(relation.other, term[head.end() : -1], depth)
        return Embedded(head["alias"] or head["table"], relation, inner)

    def _relation(self, exposed: Exposed, head: re.Match[str]) -> Relation:
        name, column, side = head["table"], head["column"], head["side"]
        found = self._visible.relations(exposed, name) if self._visible else []
        if not found:
            _refuse(f"there is no table {name[:64]!r} that is related to {exposed.name}")
        fitting = [one for one in found if column is None or column in one.key]
        fitting = [one for one in fitting if side is None or one.many == (side == "many")]
        ways = " or ".join(one.spelled(name) for one in fitting or found)
        if not fitting:
            _refuse(f"{exposed.name} and {name} have no such foreign key; write {ways}")
        if len(fitting) > 1:
            _refuse(f"{exposed.name} and {name} have more than one foreign key; write {ways}")
        return fitting[0]


def _terms(text: str) -> Iterator[str]:
    """The parts between commas that stand in no parentheses. Raises Invalid."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if depth:
        _refuse("its parentheses are not balanced")
    yield text[start:]


def _refuse(reason: str) -> NoReturn:
    raise invalid("select", reason)
