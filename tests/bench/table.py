"""The rows as a table: for a terminal, and as the Markdown of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.bench.row import Row

TITLES = ("#", "work", "reference", "ratio", "spread", "gate", "ours", "reference's", "beside")


def show(rows: Sequence[Row], console: Console) -> None:
    """Prints the table; a missed gate in red."""
    table = Table(*TITLES)
    for each in rows:
        table.add_row(*_cells(each), style="" if each.passed else "red")
    console.print(table)


def markdown(rows: Sequence[Row]) -> str:
    """The same for a page."""
    lines = [TITLES, ("---",) * len(TITLES), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    sign = "<=" if row.better == "lower" else ">="
    gate = "reported" if row.gate is None else f"{sign} {row.gate:g}x{'' if row.passed else ' missed'}"
    beside = "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.beside.items())
    spread = f"{row.spread[0]:.2f} to {row.spread[1]:.2f}"
    return (row.id, row.work, row.reference, f"{row.ratio:.2f}x", spread, gate, *row.figures, beside)
