"""The figures of the last run of each row, kept in measured.json beside this module."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.campaigns.rows import Row

FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class MeasuredPart:
    """The attempts that were counted, and the tests: how many passed, which failed, which were skipped and why."""

    count: int = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Measured:
    """One run of one row. date: ISO 8601; seconds: of the whole run; exit: pytest's exit code."""

    date: str
    commit: str
    seconds: int
    exit: int
    parts: list[MeasuredPart]

    def verdict(self, row: Row) -> str:
        """`passed`, or what is missing."""
        failed = sum(len(part.failed) for part in self.parts)
        if failed:
            return f"failed: {failed} {'test' if failed == 1 else 'tests'}"
        if len(self.parts) != len(row.parts):
            return "not run since the row changed"
        short = [part.what for part, found in zip(row.parts, self.parts, strict=True) if found.count < part.least]
        if any(found.skipped for found in self.parts) and short:
            return f"not run: needs {row.needs or 'what this machine does not have'}"
        if short:
            return f"too few: {', '.join(short)}"
        return "passed" if self.exit == 0 else f"failed: pytest ended with {self.exit}"


def load() -> dict[str, Measured]:
    """Return the measurements by row."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {id_: Measured(**{**one, "parts": [MeasuredPart(**part) for part in one["parts"]]}) for id_, one in found.items()}


def save(measured: dict[str, Measured]) -> None:
    """Write all of them."""
    FILE.write_text(json.dumps({id_: asdict(one) for id_, one in sorted(measured.items())}, indent=1) + "\n")
