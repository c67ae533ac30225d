"""The names by which people call kinds, and the columns in which their objects are listed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.output import age
from tenantry.kinds import crds
from tenantry.model.resource import CREDENTIAL_LABEL, SUSPENDED, Document, parse_time

Cell = Callable[[Document], str]
MESSAGE = ".status.conditions[?(@.type=='Ready')].message"
_SUSPENDED = f".status.conditions[?(@.type=='{SUSPENDED}')].status"
_STEP = re.compile(r"""(?:\.(\w+)|\['([^']+)'\])(?:\[\?\(@\.(\w+)==["']([^"']*)["']\)\])?""")


@dataclass(frozen=True)
class KindName:
    """A kind as people may write it. columns: (title, JSON path, type) of the narrow table; wide: what the wide one adds."""

    kind: str
    plural: str
    short: str
    namespaced: bool
    columns: tuple[tuple[str, str, str], ...]
    wide: tuple[tuple[str, str, str], ...] = ()
    has_status: bool = True

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.kind.lower(), self.plural, self.short})

    def table(self, wide: bool) -> list[tuple[str, Cell]]:
        """The columns of a list: title and cell."""
        columns = [*self.columns, *(self.wide if wide else ())]
        cells: list[tuple[str, Cell]] = [("NAMESPACE", _namespace)] if self.namespaced else []
        cells.append(("NAME", _name))
        cells += [(title, _cell(path, type_)) for title, path, type_ in columns]
        if self.has_status:
            cells.append(("MESSAGE", _message))
        cells.append(("AGE", _cell(".metadata.creationTimestamp", "date")))
        return cells


def _namespace(document: Document) -> str:
    return str(document["metadata"].get("namespace", ""))


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _message(document: Document) -> str:
    """What Ready says, and before it that nothing is done to a suspended object: what Ready says is of before that, then."""
    said = str(at(document, MESSAGE) or "")
    if at(document, _SUSPENDED) != "True":
        return said
    return f"suspended; {said}" if said else "suspended"


def _cell(path: str, type_: str) -> Cell:
    def cell(document: Document) -> str:
        value = at(document, path)
        if value is None or value == "":
            return ""
        if type_ == "date":
            return aged(str(value))
        if isinstance(value, bool):
            return str(value).lower()
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    return cell


def aged(time: str) -> str:
    """How long ago that was."""
    return age(datetime.now(UTC) - parse_time(time))


def at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a printer column's path, such as `.status.url` or `.status.conditions[?(@.type=="Ready")].reason`."""
    value: Any = document
    for plain, quoted, key, wanted in _STEP.findall(path):
        value = value.get(plain or quoted) if isinstance(value, Mapping) else None
        if key:
            value = next((each for each in value or () if each.get(key) == wanted), None)
    return value


def _ours() -> Iterator[KindName]:
    for kind, definition in crds.crds().items():
        names = definition["spec"]["names"]
        printed = definition["spec"]["versions"][0]["additionalPrinterColumns"]
        columns = [
            (column["name"].upper(), column["jsonPath"], column["type"], column.get("priority", 0))
            for column in printed
            if column["name"] != "Age"
        ]
        yield KindName(
            kind,
            names["plural"],
            names["shortNames"][0],
            definition["spec"]["scope"] == "Namespaced",
            tuple((title, path, type_) for title, path, type_, priority in columns if not priority),
            tuple((title, path, type_) for title, path, type_, priority in columns if priority),
            any(column["name"] == "Ready" for column in printed),
        )


def kinds() -> tuple[KindName, ...]:
    """Every kind that a console knows, in order of dependency."""
    purpose = ("FOR", f".metadata.labels['{CREDENTIAL_LABEL}']", "string")
    return (
        *_ours(),
        KindName("Namespace", "namespaces", "ns", False, (), has_status=False),
        KindName("Secret", "secrets", "sec", True, (purpose,), has_status=False),
    )


def find_kind(name: str) -> KindName:
    """The kind that people call so. Raises Failure with a suggestion."""
    everything = kinds()
    for kind in everything:
        if name.lower() in kind.names:
            return kind
    known = sorted(each for kind in everything for each in kind.names)
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(kind.plural for kind in everything)}"
    raise Failure(f"there is no kind {name!r}; {hint}", BAD_INPUT)
