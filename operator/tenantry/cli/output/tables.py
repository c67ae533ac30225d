"""Tables, which fit the terminal that they are printed on: long texts fold, less important columns are left out and named.

Where that is not enough, and for `-o wide`, each row becomes a block of lines. A pipe gets every column in full.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from tenantry.cli.output.colours import BOLD, GREEN, RED, YELLOW, painted
from tenantry.cli.output.terminal import visible

GAP = "   "
FOLDED = {"MESSAGE": 24, "DETAILS": 24, "MEANING": 20, "DEFAULT": 20, "TARGET": 16, "RESOLVED BY": 24}
"""Columns of long texts, and how narrow they get before another column is left out."""
FOLDED_LAST = frozenset({"TARGET"})
"""Those of them that fold only where the columns that may be left out are left out already."""
NARROWEST_BLOCK = 20
"""Characters that a value has at least beside its title."""
_COLOURS = {"True": GREEN, "SUCCESS": GREEN, "False": RED, "FAILURE": RED, "RUNNING": YELLOW, "PENDING": YELLOW}


def age(passed: timedelta) -> str:
    """As kubectl writes it: 45s, 12m, 5h, 3d, 2y."""
    seconds = max(0, int(passed.total_seconds()))
    for unit, length, until in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 48 * 3600), ("d", 86400, 730 * 86400)):
        if seconds < until:
            return f"{seconds // length}{unit}"
    return f"{seconds // (365 * 86400)}y"


class Layout(NamedTuple):
    """Form of a table. widths: of each shown column, by its title; none of them: a block of lines for each row."""

    width: int | None
    widths: dict[str, int]
    left_out: tuple[str, ...] = ()


class TextTable:
    """Rows under titles.

    kept: titles of the columns that are shown at every width; None for all of them.
    without_gaps: a row that becomes a block of lines has no line for an empty value.
    """

    def __init__(
        self,
        titles: Sequence[str],
        rows: Iterable[Sequence[str]] = (),
        kept: frozenset[str] | None = None,
        *,
        without_gaps: bool = False,
    ) -> None:
        self.titles = tuple(titles)
        self.rows = [tuple(map(_one_line, row)) for row in rows]
        self._without_gaps = without_gaps
        self._kept = frozenset(titles) if kept is None else kept
        columns = zip(self.titles, *self.rows, strict=True)
        self._natural = {column[0]: max(map(_width, column)) for column in columns}
        self._values = {
            title: len(set(cells)) if any(cells) else 0 for title, *cells in zip(self.titles, *self.rows, strict=True)
        }

    def __str__(self) -> str:
        return "\n".join(self.lines(self.layout(None)))

    def layout(self, width: int | None) -> Layout:
        """The layout that fits a terminal of that many columns; None: each column as wide as its widest cell."""
        if width is None:
            return Layout(None, dict(self._natural))
        return self._fitting(width, FOLDED_LAST) or self._fitting(width) or Layout(width, {})

    def _fitting(self, width: int, in_full: frozenset[str] = frozenset()) -> Layout | None:
        """The layout with the most columns that fits, None if there is none. in_full: titles of those that may not fold."""
        shown = list(self.titles)
        for leaving in (*self._leaving(), None):
            if _total(self._natural[title] if title in in_full else self._narrowest(title) for title in shown) <= width:
                return Layout(
                    width, self._shared(shown, width, in_full), tuple(each for each in self.titles if each not in shown)
                )
            if leaving is not None:
                shown.remove(leaving)
        return None

    def lines(self, layout: Layout) -> Iterator[str]:
        """The whole table as plain lines."""
        if layout.widths:
            yield from self.row_lines(self.titles, layout)
        for number, row in enumerate(self.rows):
            if number and not layout.widths:
                yield ""
            yield from self.row_lines(row, layout)

    def row_lines(self, row: Sequence[str], layout: Layout) -> Iterator[str]:
        """One row: a line, or several where a text is folded."""
        cells = dict(zip(self.titles, map(_one_line, row), strict=True))
        if not layout.widths:
            yield from _block({title: cell for title, cell in cells.items() if cell or not self._without_gaps}, layout.width or 0)
            return
        folded = {
            title: _fold(cells[title], width) if title in FOLDED else [cells[title]] for title, width in layout.widths.items()
        }
        for number in range(max(map(len, folded.values()))):
            parts = ((lines[number] if number < len(lines) else "", layout.widths[title]) for title, lines in folded.items())
            yield GAP.join(text + " " * (width - _width(text)) for text, width in parts).rstrip()

    def _leaving(self) -> list[str]:
        """Titles in the order in which they are left out.

        Columns without a value go first, then columns of one value, then others from the right; messages go last.
        """
        leaving = [title for title in reversed(self.titles) if title not in self._kept]
        return sorted(leaving, key=lambda title: (min(self._values[title], 2), title in FOLDED))

    def _narrowest(self, title: str) -> int:
        natural = self._natural[title]
        return min(natural, max(FOLDED[title], len(title))) if title in FOLDED else natural

    def _shared(self, shown: Sequence[str], width: int, in_full: frozenset[str]) -> dict[str, int]:
        """Widths that fit: folded columns give way, the widest first."""
        widths = {title: self._natural[title] for title in shown}
        while _total(widths.values()) > width:
            wide = (title for title in shown if title not in in_full and widths[title] > self._narrowest(title))
            widest = max(wide, key=lambda each: widths[each])
            widths[widest] -= 1
        return widths


def print_table(table: TextTable) -> Layout:
    """The whole table, to standard output; on standard error the columns that were left out. Return the layout of more rows."""
    layout = table.layout(terminal_width())
    if layout.widths:
        _put(table.row_lines(table.titles, layout), header=True)
    for number, row in enumerate(table.rows):
        if number and not layout.widths:
            _put([""])
        print_row(table, row, layout)
    if layout.left_out:
        sys.stderr.write(f"left out at {layout.width} columns: {', '.join(layout.left_out)}; -o wide shows all\n")
    return layout


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None for a pipe."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def print_row(table: TextTable, row: Sequence[str], layout: Layout) -> None:
    """One more row below a printed table."""
    _put(table.row_lines(row, layout))


def _put(lines: Iterable[str], header: bool = False) -> None:
    """Standard output, at once: a watch is read as it runs."""
    for line in lines:
        shown = painted(line, BOLD, sys.stdout) if header else GAP.join(map(_coloured, line.split(GAP)))
        sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


def _coloured(cell: str) -> str:
    """A state in its colour, the spaces around it without."""
    state = cell.strip()
    return cell.replace(state, painted(state, _COLOURS[state], sys.stdout)) if state in _COLOURS else cell


def _block(cells: dict[str, str], width: int) -> Iterator[str]:
    """One row as lines: a title and its value, folded beside it."""
    indent = max(map(len, cells)) + len(GAP)
    for title, text in cells.items():
        first, *more = _fold(text, max(width - indent, NARROWEST_BLOCK))
        yield f"{title:<{indent}}{first}".rstrip()
        yield from (" " * indent + each for each in more)


def _fold(text: str, width: int) -> list[str]:
    """Lines of at most that width; `[""]` for no text."""
    if text.isascii():
        from textwrap import wrap  # only rows that are too wide need it

        return wrap(_breakable(text, width), width, break_on_hyphens=False) or [""]
    from rich.cells import chop_cells

    return [each.strip() for each in chop_cells(text, width)] or [""]


def _breakable(text: str, width: int) -> str:
    """The text with a space after a separator of each word that is too long for a line: `app/tenant-acme/ dev.crm`."""
    return " ".join(_parted(word, width) if len(word) > width else word for word in text.split(" "))


def _parted(word: str, width: int) -> str:
    """As many parts between separators as fit on a line, then a space. A part that is too long is broken anywhere."""
    lines = [""]
    for part in re.split(r"(?<=[/.@])", word):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append(part)
        else:
            lines[-1] += part
    return " ".join(lines)


def _width(text: str) -> int:
    """Columns of a terminal: a character of Chinese takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _total(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + len(GAP) * max(len(each) - 1, 0)


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))
