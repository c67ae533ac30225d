"""What commands print: data to standard output, as tables, JSON, YAML or names. NO_COLOR is honoured; a pipe gets plain text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tenantry.cli.terminal import is_visible, visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from tenantry.model.resource import Document

GAP = "   "
FOLDED = frozenset({"MESSAGE", "DETAILS"})
_STYLES = {"True": "green", "SUCCESS": "green", "False": "red", "FAILURE": "red", "RUNNING": "yellow", "PENDING": "yellow"}


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def age(passed: timedelta) -> str:
    """As kubectl writes it: 45s, 12m, 5h, 3d, 2y."""
    seconds = max(0, int(passed.total_seconds()))
    for unit, length, until in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 48 * 3600), ("d", 86400, 730 * 86400)):
        if seconds < until:
            return f"{seconds // length}{unit}"
    return f"{seconds // (365 * 86400)}y"


class Table:
    """Rows under titles, each column as wide as its widest cell so far."""

    def __init__(self, titles: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> None:
        self._titles = tuple(titles)
        self._rows = [tuple(map(_one_line, row)) for row in rows]
        self._widths = [max(map(len, column)) for column in zip(self._titles, *self._rows, strict=True)]

    def __str__(self) -> str:
        return "\n".join([self.line(self._titles), *map(self.line, self._rows)])

    def line(self, row: Sequence[str]) -> str:
        """One row, aligned with the others."""
        cells = tuple(map(_one_line, row))
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        return GAP.join(padded).rstrip()

    def rich(self) -> RichTable:
        """The same for a terminal: states in colour, long messages folded."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
        for title in self._titles:
            table.add_column(title, overflow="fold", no_wrap=title not in FOLDED)
        for row in self._rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        return table


def print_table(table: Table) -> None:
    """The whole table, to standard output."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(table.rich())
    else:
        write(str(table))


def write(text: str) -> None:
    """A line of data, at once: a watch is read as it runs."""
    sys.stdout.write(f"{visible(text)}\n")
    sys.stdout.flush()


def print_documents(documents: Sequence[Document], format_: Format, single: bool) -> None:
    """As JSON (an array for a list, an object for one), YAML or names."""
    match format_:
        case Format.JSON:
            write(to_json(documents[0] if single else list(documents)))
        case Format.YAML:
            write(to_yaml(documents))
        case _:
            for document in documents:
                write(name_of(document))


def to_json(value: Any) -> str:
    """Indented by two, non-ASCII as it is where it can be seen."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if is_visible(text) else json.dumps(value, indent=2)


def to_yaml(documents: Iterable[Any]) -> str:
    """Several documents, `---` between them, fields in their own order; what cannot be seen is escaped."""
    import yaml

    def dumped(document: Any) -> str:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
        return text if is_visible(text) else yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=120)

    texts = [dumped(each) for each in documents]
    return "---\n".join(texts).rstrip("\n")


def name_of(document: Document) -> str:
    """`environment/dev`, which other commands take."""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
