"""Tests whose failure is known and does not fail a run: `tests/quarantine.toml`, at most eight, each for at most 14 days.

A quarantined test still runs and is reported. Time is that of the commit, so that a commit has the same verdict in a year.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

MOST = 8
LONGEST = timedelta(days=14)


@dataclass(frozen=True)
class Entry:
    """error: its first line as it was seen. known: what is known of the cause."""

    id: str
    error: str
    since: date
    until: date
    known: str


def read(file: Path) -> tuple[Entry, ...]:
    """The entries. Raises ValueError for what breaks the rules."""
    entries = tuple(Entry(**each) for each in tomllib.loads(file.read_text("utf-8")).get("test", ()))
    if len(entries) > MOST:
        raise ValueError(f"{file.name} holds {len(entries)} tests; repair some: the most are {MOST}")
    for each in entries:
        if not each.since <= each.until <= each.since + LONGEST:
            raise ValueError(
                f"{file.name}: {each.id} is in quarantine until {each.until}; the most are {LONGEST.days} days from {each.since}"
            )
    return entries


def in_force(entries: tuple[Entry, ...], day: date) -> frozenset[str]:
    return frozenset(each.id for each in entries if day <= each.until)
