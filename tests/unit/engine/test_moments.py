"""The changes of a table since a copy, by what was counted then and now."""

from __future__ import annotations

import pytest

from tenantry.adapters.moving.blocks import parse_blocks
from tenantry.engine.logical.moments import CopyMoment, Counted, EarlierCopy, TableChanges, TableFacts, changes, runs

FACTS = TableFacts(oid=1, file=2, columns=("1 id", "2 name"), key=("id",), width=32)
OURS = (1 << 62).to_bytes(8, "big")
MOMENT = CopyMoment(id="a", server="s 1 5", xid=1000, shape="x", tables={"t": FACTS})


@pytest.mark.parametrize(
    ("told", "earlier", "now", "found"),
    [
        ("nothing", {0: 3, 1: 2}, {0: Counted(3, 0), 1: Counted(2, 0)}, TableChanges((), ())),
        ("a new row", {0: 3}, {0: Counted(3, 1)}, TableChanges((), ((0, 1),))),
        ("a changed row", {0: 3}, {0: Counted(2, 1)}, TableChanges(((0, 1),), ((0, 1),))),
        (
            "a changed row that went elsewhere",
            {0: 3, 1: 1},
            {0: Counted(2, 0), 1: Counted(1, 1)},
            TableChanges(((0, 1),), ((1, 2),)),
        ),
        ("a row is gone", {0: 3, 1: 1, 2: 1}, {0: Counted(3, 0), 2: Counted(1, 0)}, TableChanges(((1, 2),), ())),
        ("ranges side by side", {1: 1, 2: 1, 4: 1}, {}, TableChanges(((1, 3), (4, 5)), ())),
        ("a table that was empty", {}, {0: Counted(0, 9)}, TableChanges((), ((0, 1),))),
        ("more old rows than there were", {0: 3}, {0: Counted(4, 0)}, None),
        ("old rows where there were none", {0: 3}, {0: Counted(3, 0), 5: Counted(1, 0)}, None),
    ],
)
def test_what_changed(told: str, earlier: dict[int, int], now: dict[int, Counted], found: TableChanges | None) -> None:
    assert changes(earlier, now) == found, told


@pytest.mark.parametrize(
    ("now", "next_xid", "seen"),
    [
        ({}, 1000, True),
        ({"xid": 5000}, 9000, True),
        ({"xid": 1000 + 2**31}, 999 + 2**31, True),
        ({}, 1000 + 2**31, False),
        ({"xid": 999}, 1000, False),
        ({"server": "s 2 5"}, 1000, False),
        ({"shape": "y"}, 1000, False),
    ],
    ids=["at once", "later", "at the last moment", "numbers come again", "an earlier server", "another timeline", "other tables"],
)
def test_if_changes_can_be_seen(now: dict[str, object], next_xid: int, seen: bool) -> None:
    assert EarlierCopy(moment=MOMENT, counts={}).precedes(MOMENT.model_copy(update=now), next_xid) is seen


@pytest.mark.parametrize(
    "change",
    [{"oid": 9}, {"file": 9}, {"columns": ("1 id", "3 name")}, {"key": ("name",)}],
    ids=lambda change: next(iter(change)),
)
def test_the_places_of_a_table_that_is_stored_anew_are_others(change: dict[str, object]) -> None:
    assert not FACTS.is_stored_as(FACTS.model_copy(update=change))


def test_the_places_of_a_table_are_the_same_however_they_are_counted() -> None:
    assert FACTS.is_stored_as(FACTS.model_copy(update={"width": 64}))


def test_a_table_without_a_key_is_always_sent_whole() -> None:
    keyless = FACTS.model_copy(update={"key": ()})
    assert not keyless.is_stored_as(keyless)


@pytest.mark.parametrize("name", ["t", "table with \u00df", "t" * 50])
def test_an_earlier_release_takes_it_for_digests_of_another_file(name: str) -> None:
    copy = EarlierCopy(moment=MOMENT.model_copy(update={"tables": {name: FACTS}}), counts={name: {0: 3, 7: 1}})
    assert EarlierCopy.parse(copy.packed()) == copy
    parse_blocks(copy.packed())


@pytest.mark.parametrize(
    "packed", [b"", b"\0" * 40, (1 << 62).to_bytes(8, "big") + b"{}", (1 << 62).to_bytes(8, "big") + b"\xff"]
)
def test_what_another_place_sends_is_no_earlier_copy(packed: bytes) -> None:
    assert EarlierCopy.parse(packed) is None


def test_runs_of_numbers() -> None:
    assert runs([7, 1, 2, 3]) == ((1, 4), (7, 8))
