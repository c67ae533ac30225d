"""Rows stay in order as they come, change and go, and a page costs the rows that it shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.console.reading import orders
from tenantry.console.reading.orders import AGE, KEYS, URGENCY, OrderedRows
from tenantry.console.reading.summary import MOVING, URGENT, Summary, by_urgency, ranks_of
from tenantry.kinds.states import DELETING, NEEDS_YOU, READY, STATES, Standing
from tenantry.model.resource import Ref


def row_of(uid: str, state: str = READY, title: str = "", created: str = "", reason: str = "") -> Summary:
    return Summary(Ref("Environment", "n", uid), uid, "n", title or uid, "n", "", created, Standing(state, state, reason), uid)


ROWS = st.builds(
    row_of,
    st.sampled_from("abcdefghij"),
    st.sampled_from(STATES),
    st.text("xyzX", max_size=2),
    st.sampled_from(("2026", "2027")),
    st.sampled_from(("", "Busy")),
)


@pytest.mark.parametrize("many", [0, 1, 100])
@given(changes=st.lists(st.tuples(ROWS, st.booleans()), max_size=40), edge=ROWS, down=st.booleans())
def test_rows_are_in_every_order_after_any_changes(many: int, changes: list[Any], edge: Summary, down: bool) -> None:
    held: dict[str, Summary] = {}
    rows = OrderedRows(many)
    for row, stays in changes:
        if row.uid in held:
            rows.remove(held.pop(row.uid))
        if stays:
            rows.add(row)
            held[row.uid] = row
    assert rows.counts.total() == len(rows) == len(held)
    for order, key in KEYS.items():
        expected = sorted(held.values(), key=key, reverse=down)
        assert list(rows.ordered(order, down=down)) == expected
        after = [row for row in expected if (key(row) < key(edge) if down else key(row) > key(edge))]
        assert list(rows.ordered(order, after=key(edge), down=down)) == after
    in_order = sorted(held.values(), key=by_urgency)
    for state in STATES:
        of_state = [row for row in in_order if row.standing.state == state]
        assert list(rows.ranked(ranks_of(state))) == of_state
        assert (rows.count(ranks_of(state)), rows.counts[state]) == (len(of_state), len(of_state))
        assert list(rows.ranked(ranks_of(state), by_urgency(edge))) == [
            row for row in of_state if by_urgency(row) > by_urgency(edge)
        ]


def test_what_needs_a_person_comes_before_what_is_on_its_way() -> None:
    blocked, going = row_of("a", DELETING, reason="InUse"), row_of("b", DELETING)
    broken, waiting, suspended = row_of("z", NEEDS_YOU), row_of("c", "waiting"), row_of("d", "suspended")
    rows = OrderedRows.of(iter([waiting, suspended, going, blocked, row_of("e"), broken]))
    assert list(rows.ranked(URGENT)) == [broken, blocked]
    assert list(rows.ranked(MOVING)) == [going, waiting]


def test_a_page_of_many_rows_looks_at_its_own_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = OrderedRows.of(row_of(f"{number:05}", STATES[number % 6], created=str(number)) for number in range(10_000))
    next(rows.ordered(AGE))
    next(rows.ranked())
    asked: list[Summary] = []

    def noted(key: Callable[[Summary], Any], row: Summary) -> Any:
        asked.append(row)
        return key(row)

    monkeypatch.setattr(orders, "KEYS", {order: partial(noted, key) for order, key in KEYS.items()})
    assert len(list(islice(rows.ordered(AGE, after=(0, "5000", "05000"), down=True), 50))) == 50
    assert len(list(islice(rows.ranked(URGENT), 20))) == 20
    assert asked == []
    rows.add(row_of("new", NEEDS_YOU, title="0"))
    assert next(rows.ranked()).uid == "new"
    assert len(asked) == len(KEYS)
    assert URGENCY in KEYS
