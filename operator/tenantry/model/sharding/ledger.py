"""The ledger of the operator's replicas: who is alive, and who holds which shard. Each replica writes its own entry.

A shard is acted upon only by the replica whose stored entry holds it. A replica takes a shard that no entry holds, and gives one
up only after its last pass there has ended. Every write is conditional on the version that was read, so two never take the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from tenantry.model.sharding.assignment import assigned

FORM = 1
"""Of the JSON, and of the way from a namespace to its shard. A ledger of another form is nobody's who reads this one."""


class ReplicaEntry(NamedTuple):
    """One replica. run: differs at each start; beat: counts its renewals; wants: the number of shards by its settings.

    looked: every object of its shards had a pass since it took them; release: of its code.
    """

    run: str
    beat: int
    wants: int
    holds: frozenset[int] = frozenset()
    looked: bool = False
    release: str = ""

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "holds": sorted(self.holds)}


@dataclass(frozen=True)
class ShardStep:
    """The next entry of a replica, by a ledger. count: of shards from then on; holds: what it may have. waits: more is its due,
    which others have not given up yet."""

    count: int
    holds: frozenset[int]
    waits: bool = False


@dataclass(frozen=True)
class ShardLedger:
    """count: of shards, in effect."""

    count: int
    entries: Mapping[str, ReplicaEntry] = field(default_factory=dict)

    def with_entry(self, name: str, entry: ReplicaEntry) -> ShardLedger:
        """Return the ledger with a replica's new entry."""
        return replace(self, entries={**self.entries, name: entry})

    def without(self, names: Iterable[str]) -> ShardLedger:
        """Return the ledger without those replicas. Nobody holds their shards then."""
        gone = frozenset(names)
        return replace(self, entries={name: entry for name, entry in self.entries.items() if name not in gone})

    def next_step(self, name: str) -> ShardStep:
        """Return what one of its replicas is to do now.

        The count changes once all replicas want the same other one, and all have given up what they held by the old one.
        """
        ledger, own = self, self.entries[name]
        wanted = {entry.wants for entry in self.entries.values()}
        if len(wanted) == 1 and wanted != {self.count}:
            if any(entry.holds for entry in self.entries.values()):
                return ShardStep(self.count, frozenset(), True)
            ledger = replace(self, count=own.wants)
        due = assigned(ledger.count, {each: entry.holds for each, entry in ledger.entries.items()})[name]
        others = frozenset[int]().union(*(entry.holds for each, entry in self.entries.items() if each != name))
        return ShardStep(ledger.count, due - others, bool(due & others))

    def all_looked(self, release: str) -> bool:
        """Return True if each shard is held by a replica of that release that has looked at all of it."""
        held = {shard for entry in self.entries.values() if entry.looked and entry.release == release for shard in entry.holds}
        return held == set(range(self.count))

    def text(self) -> str:
        """Return the JSON that `parse` reads."""
        entries = {name: entry.as_json() for name, entry in sorted(self.entries.items())}
        return orjson.dumps({"form": FORM, "count": self.count, "replicas": entries}).decode()


def parse(text: str) -> ShardLedger | None:
    """Return the ledger, None for what is none of this form."""
    try:
        found = orjson.loads(text)
        if found["form"] != FORM:
            return None
        entries = {name: _entry(each) for name, each in found["replicas"].items()}
        return ShardLedger(int(found["count"]), entries)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _entry(found: Mapping[str, Any]) -> ReplicaEntry:
    run, holds = str(found["run"]), frozenset(map(int, found["holds"]))
    return ReplicaEntry(run, int(found["beat"]), int(found["wants"]), holds, bool(found["looked"]), str(found["release"]))
