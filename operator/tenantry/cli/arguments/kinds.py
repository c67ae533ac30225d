"""The names by which people call kinds, and the columns in which their objects are listed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.cli.output.tables import age
from tenantry.model.documents import CREDENTIAL_LABEL, SUSPENDED, Document, parse_time

FILE = Path(__file__).with_name("kinds.json")
ALIKE = 0.7
"""Short names are many: a guess must be nearer than for other names; see model/wording.nearest."""
SHORTEST = 2
"""Letters of a kind's name that are enough, where no other kind begins so."""
Cell = Callable[[Document], str]
MESSAGE = ".status.conditions[?(@.type=='Ready')].message"
_SUSPENDED = f".status.conditions[?(@.type=='{SUSPENDED}')].status"
_STEP = re.compile(r"""(?:\.(\w+)|\['([^']+)'\])(?:\[\?\(@\.(\w+)==["']([^"']*)["']\)\])?""")


class KindName(NamedTuple):
    """A kind as people may write it. columns: (title, JSON path, type) of the narrow table; wide: what the wide one adds.

    important: titles that the narrowest terminal shows too.
    """

    kind: str
    plural: str
    shorts: tuple[str, ...]
    namespaced: bool
    columns: tuple[tuple[str, str, str], ...]
    important: frozenset[str] = frozenset({"NAMESPACE", "NAME", "AGE"})
    wide: tuple[tuple[str, str, str], ...] = ()
    has_status: bool = True

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.kind.lower(), self.plural, *self.shorts})

    @property
    def short(self) -> str:
        """The name that is quickest to write."""
        return self.shorts[0]

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
    """The message of Ready. For a suspended object it begins with that fact, because the message is older."""
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
    """Return the time since then, as text."""
    return age(datetime.now(UTC) - parse_time(time))


def at(document: Mapping[str, Any], path: str) -> Any:
    """The value at a printer column's path, such as `.status.url` or `.status.conditions[?(@.type=="Ready")].reason`."""
    value: Any = document
    for plain, quoted, key, wanted in _STEP.findall(path):
        value = value.get(plain or quoted) if isinstance(value, Mapping) else None
        if key:
            value = next((each for each in value or () if each.get(key) == wanted), None)
    return value


@cache
def _known() -> Mapping[str, Any]:
    """The generated file: see known_kinds.py."""
    known: Mapping[str, Any] = json.loads(FILE.read_bytes())
    return known


def _ours() -> Iterator[KindName]:
    for each in _known()["kinds"]:
        columns, wide = (tuple(map(tuple, each[name])) for name in ("columns", "wide"))
        yield KindName(
            each["kind"],
            each["plural"],
            tuple(each["shorts"]),
            each["namespaced"],
            columns,
            frozenset(each["important"]),
            wide,
            each["has_status"],
        )


def contents() -> tuple[str, ...]:
    """The kinds that are part of an Environment."""
    return tuple(_known()["contents"])


def kinds() -> tuple[KindName, ...]:
    """Every kind that a console knows, in order of dependency."""
    purpose = ("FOR", f".metadata.labels['{CREDENTIAL_LABEL}']", "string")
    of_secrets = frozenset({"NAMESPACE", "NAME", "FOR", "AGE"})
    return (
        *_ours(),
        KindName("Namespace", "namespaces", ("ns",), False, (), has_status=False),
        KindName("Secret", "secrets", ("sec",), True, (purpose,), of_secrets, has_status=False),
    )


def find_kind(name: str) -> KindName:
    """The kind that people call so, or by the start of one of its names. Raises Failure with a suggestion."""
    everything, wanted = kinds(), name.lower()
    for kind in everything:
        if wanted in kind.names:
            return kind
    started = [kind for kind in everything if len(wanted) >= SHORTEST and any(each.startswith(wanted) for each in kind.names)]
    if len(started) == 1:
        return started[0]
    if started:
        raise Failure(f"{name!r} may be {' or '.join(kind.kind.lower() for kind in started)}; write more of it", BAD_INPUT)
    from tenantry.model.wording import nearest

    known = sorted(each for kind in everything for each in kind.names)
    near = nearest(wanted, known, like=ALIKE)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(kind.plural for kind in everything)}"
    raise Failure(f"there is no kind {name!r}; {hint}", BAD_INPUT)
