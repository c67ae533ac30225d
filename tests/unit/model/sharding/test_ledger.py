"""The next step of a replica by the ledger, and the form in which the Lease keeps it."""

from __future__ import annotations

import orjson
import pytest

from tenantry.model.sharding.ledger import ReplicaEntry, ShardLedger, ShardStep, parse


def entry(*holds: int, wants: int = 4, looked: bool = True, release: str = "1") -> ReplicaEntry:
    return ReplicaEntry("run", 3, wants, frozenset(holds), looked, release)


def ledger(count: int = 4, **entries: ReplicaEntry) -> ShardLedger:
    return ShardLedger(count, entries)


def step(*holds: int, count: int = 4, waits: bool = False) -> ShardStep:
    return ShardStep(count, frozenset(holds), waits)


@pytest.mark.parametrize(
    "why, found, then",
    [
        ("alone it takes all", ledger(a=entry()), step(0, 1, 2, 3)),
        ("what it has stays", ledger(a=entry(0, 1), b=entry(2, 3)), step(0, 1)),
        ("it gives up what is above its number", ledger(a=entry(0, 1, 2, 3), b=entry()), step(0, 1)),
        ("what others have not given up it awaits", ledger(a=entry(), b=entry(0, 1, 2, 3)), step(waits=True)),
        ("it takes what was given up", ledger(a=entry(), b=entry(0, 1, 2)), step(3, waits=True)),
        ("one that wants another number joins in by the old one", ledger(a=entry(wants=8), b=entry(0, 1)), step(2, 3)),
        ("once all want another number, all is given up", ledger(a=entry(0, 1, wants=8), b=entry(2, wants=8)), step(waits=True)),
        ("and waits for the others", ledger(a=entry(wants=8), b=entry(2, wants=8)), step(waits=True)),
        ("then the new number counts", ledger(a=entry(wants=2), b=entry(wants=2)), step(0, count=2)),
        ("also for one alone", ledger(a=entry(wants=2)), step(0, 1, count=2)),
    ],
)
def test_the_next_step_of_a(why: str, found: ShardLedger, then: ShardStep) -> None:
    assert found.next_step("a") == then, why


@pytest.mark.parametrize(
    "why, found, looked",
    [
        ("all shards are looked at", ledger(a=entry(0, 1), b=entry(2, 3)), True),
        ("a shard is nobody's", ledger(a=entry(0, 1), b=entry(2)), False),
        ("one has not looked at all", ledger(a=entry(0, 1), b=entry(2, 3, looked=False)), False),
        ("one is of another release", ledger(a=entry(0, 1), b=entry(2, 3, release="0")), False),
        ("one without shards does not matter", ledger(a=entry(0, 1, 2, 3), b=entry(looked=False)), True),
    ],
)
def test_all_shards_are_looked_at(why: str, found: ShardLedger, looked: bool) -> None:
    assert found.all_looked("1") == looked, why


def test_a_ledger_is_read_as_it_was_written() -> None:
    written = ledger(7, a=entry(0, 6, wants=9), b=entry(looked=False))
    assert parse(written.text()) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "not JSON",
        orjson.dumps({"form": 2, "count": 4, "replicas": {}}).decode(),
        orjson.dumps({"form": 1, "count": 4, "replicas": {"a": {"run": "x"}}}).decode(),
        orjson.dumps({"form": 1, "count": 4, "replicas": ["a"]}).decode(),
        orjson.dumps({"form": 1, "count": "many", "replicas": {}}).decode(),
    ],
)
def test_what_is_no_ledger_of_this_form_is_none(text: str) -> None:
    assert parse(text) is None
