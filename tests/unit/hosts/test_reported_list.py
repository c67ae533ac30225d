"""The events of a list decide whether its kind is listed once more."""

from __future__ import annotations

import pytest

from tenantry.hosts.reported_list import ReportedList
from tenantry.runtime.cache import Name

ONE: Name = ("tenant-acme", "one")
TWO: Name = ("tenant-acme", "two")
Event = tuple[Name, bool]
"""An object, and whether it is of a list."""


@pytest.mark.parametrize(
    ("events", "held", "lacks"),
    [
        pytest.param([(ONE, True), (TWO, True)], [ONE, TWO], False, id="all that is held was reported"),
        pytest.param([(ONE, True)], [ONE, TWO], True, id="one went unseen"),
        pytest.param([], [ONE], True, id="the last one went unseen"),
        pytest.param([], [], False, id="there are none"),
        pytest.param([(ONE, True), (TWO, False)], [ONE, TWO], False, id="one was made after the list"),
        pytest.param([(ONE, False), (TWO, True)], [ONE, TWO], False, id="a change of one was reported in its stead"),
        pytest.param([(ONE, True), (TWO, True), (ONE, True)], [ONE, TWO], True, id="a second list, which may lack another"),
        pytest.param([(ONE, True), (TWO, True)], [ONE], False, id="a removal was reported"),
    ],
)
def test_what_is_held_and_was_not_reported_may_be_gone(events: list[Event], held: list[Name], lacks: bool) -> None:
    listing = ReportedList(1.0)
    for name, listed in events:
        listing.report(name, 2.0, listed=listed)
    assert listing.lacks(held) is lacks


def test_only_events_of_the_list_put_off_its_end() -> None:
    listing = ReportedList(10.0)
    listing.report(ONE, 12.0, listed=True)
    listing.report(TWO, 13.0, listed=False)
    assert listing.last == 12.0
    early = ReportedList(10.0)
    early.report(ONE, 4.0, listed=True)
    assert early.last == 10.0


def test_a_kind_that_is_to_be_listed_is_listed() -> None:
    listing = ReportedList(1.0)
    listing.report(ONE, 1.0, listed=True)
    listing.unsure = True
    assert listing.lacks([ONE])
