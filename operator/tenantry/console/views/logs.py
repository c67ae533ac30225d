"""The lines of a log that a page shows. A log only grows, so a line keeps its number. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

SHOWN = 200
"""Lines of a page at most: a browser draws them at once, however long the log is."""


class LogWindow(NamedTuple):
    """Numbered lines. total: of the whole log; older, newer: the first line of the page before and after, None for none."""

    lines: tuple[tuple[int, str], ...]
    total: int
    older: int | None = None
    newer: int | None = None
    search: str = ""


def log_window(log: str, query: Mapping[str, str]) -> LogWindow:
    """Return the lines that an address asks for: `from` is the first line, by default of the newest page; `q` is searched."""
    body = log.removesuffix("\n")
    total = body.count("\n") + 1 if body else 0
    asked, search = query.get("from", ""), query.get("q", "").strip()
    first = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) <= 12 else 0
    if search:
        return _matches(body, total, max(first, 1), search)
    first = min(first, total) if first else total - SHOWN + 1
    first = max(first, 1)
    lines = tuple(enumerate(_between(body, total, first - 1), first)) if total else ()
    older = max(first - SHOWN, 1) if first > 1 else None
    return LogWindow(lines, total, older, first + SHOWN if first + SHOWN <= total else None)


def _between(body: str, total: int, skipped: int) -> list[str]:
    """At most SHOWN lines after so many, without splitting all of a long log that is read at its end."""
    if skipped > total // 2:
        return body.rsplit("\n", total - skipped)[1:][:SHOWN]
    return body.split("\n", skipped + SHOWN)[skipped : skipped + SHOWN]


def _matches(body: str, total: int, first: int, search: str) -> LogWindow:
    wanted = search.casefold()
    numbered = enumerate(body.split("\n"), 1)
    found = (each for each in numbered if each[0] >= first and wanted in each[1].casefold())
    lines = tuple(islice(found, SHOWN))
    after = next(found, None)
    return LogWindow(lines, total, 1 if first > 1 else None, after[0] if after else None, search)
