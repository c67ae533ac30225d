"""Decide what a measured row says beside its record. Pure: `recorded` reads the records, `__main__` measures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.bench.row import Better, Row

WORSE = 1.5
"""So many times the recorded figure is worse."""
UNSTEADY = 1.4
"""If runs of one commit spread by more, another commit is compared with the worst of them."""


class Kind(StrEnum):
    HELD = "held"
    BETTER = "better: record it"
    MISSED = "misses its gate, as recorded"
    UNSTEADY = "not much worse than the worst recorded: those differ too much to be judged closely"
    WORSE = "WORSE"
    UNRECORDED = "NOT RECORDED"
    UNMEASURED = "NOT MEASURED"

    @property
    def fails(self) -> bool:
        return self in (Kind.WORSE, Kind.UNRECORDED, Kind.UNMEASURED)


@dataclass(frozen=True)
class Record:
    """The ratios of a row's runs on one commit. why: the decision that accepted a worse figure."""

    ratios: tuple[float, ...]
    better: Better
    commit: str
    why: str = ""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def spread(self) -> float:
        """The greatest ratio, in terms of the least."""
        return max(self.ratios) / min(self.ratios)

    @property
    def steady(self) -> bool:
        return self.spread <= UNSTEADY

    @property
    def worst(self) -> float:
        return max(self.ratios) if self.better == "lower" else min(self.ratios)

    def times_worse(self, ratio: float, than: float | None = None) -> float:
        """Return by what factor a ratio is worse than another, the record's by default; below 1 if it is better."""
        than = self.ratio if than is None else than
        return ratio / than if self.better == "lower" else than / ratio


@dataclass(frozen=True)
class Judged:
    """row: None for a record without a measurement. record: None for a measurement without a record."""

    key: str
    kind: Kind
    row: Row | None
    record: Record | None

    def sentence(self) -> str:
        """Return a line for the output: the figure, the recorded one and the verdict."""
        now = f"{self.row.ratio:.2f}x" if self.row else "-"
        before = f"{self.record.ratio:.2f}x ({self.record.commit})" if self.record else "-"
        return f"{self.key}: {now}, recorded {before}: {self.kind}"


def key_of(row: Row) -> str:
    """The name of a row's record."""
    return f"{row.id}: {row.work}"


def judge(rows: Sequence[Row], records: Mapping[str, Record]) -> tuple[Judged, ...]:
    """Each row beside its record, then the records that nothing measured."""
    measured = {key_of(row): row for row in rows}
    judged = [Judged(key, _kind(row, records.get(key)), row, records.get(key)) for key, row in measured.items()]
    lost = [Judged(key, Kind.UNMEASURED, None, record) for key, record in records.items() if key not in measured]
    return (*judged, *lost)


def _kind(row: Row, record: Record | None) -> Kind:
    if record is None:
        return Kind.UNRECORDED
    worse = record.times_worse(row.ratio)
    if not record.steady:
        return Kind.WORSE if record.times_worse(row.ratio, record.worst) > WORSE else Kind.UNSTEADY
    if worse > WORSE:
        return Kind.WORSE
    if worse < 1 / WORSE:
        return Kind.BETTER
    return Kind.HELD if row.passed else Kind.MISSED
