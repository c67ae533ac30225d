"""The pages of a log: each line is on one of them, with its number, however long the log is."""

from __future__ import annotations

import pytest

from tenantry.console.views.logs import SHOWN, LogWindow, log_window
from tests.support.reference_work import cost

LINES = 100_000


def log_of(lines: int) -> str:
    return "".join(f"2026-11-23T08:00:00Z INFO line {number} {'x' * 60}\n" for number in range(1, lines + 1))


@pytest.fixture(scope="module")
def long() -> str:
    return log_of(LINES)


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        ("", ()),
        ("one", ((1, "one"),)),
        ("one\n", ((1, "one"),)),
        ("one\n\nthree\n", ((1, "one"), (2, ""), (3, "three"))),
        ("a\x85b\u2028c\r\n", ((1, "a\x85b\u2028c\r"),)),
    ],
)
def test_a_short_log_is_one_page(log: str, lines: tuple[tuple[int, str], ...]) -> None:
    assert log_window(log, {}) == LogWindow(lines, len(lines))


def test_the_pages_back_from_the_end_hold_every_line() -> None:
    lines = LINES // 10
    log, seen = log_of(lines), dict[int, str]()
    window = log_window(log, {})
    assert window.lines[-1][0] == lines
    pages = 1
    while True:
        assert len(window.lines) <= SHOWN
        seen |= dict(window.lines)
        if window.older is None:
            break
        window = log_window(log, {"from": str(window.older)})
        pages += 1
    assert "".join(f"{seen[number]}\n" for number in range(1, lines + 1)) == log
    assert pages == lines // SHOWN


def test_a_line_keeps_its_number_and_its_page_while_the_log_grows(long: str) -> None:
    before = log_window(long, {"from": "1000"})
    after = log_window(long + "more\n", {"from": "1000"})
    assert (before.lines, before.newer, before.older) == (after.lines, after.newer, after.older)
    assert log_window(long + "more\n", {}).lines[-1] == (LINES + 1, "more")


@pytest.mark.parametrize("from_", ["0", "-1", "x", "9" * 40, "\u0661", ""])
def test_an_odd_address_shows_the_newest_lines(long: str, from_: str) -> None:
    assert log_window(long, {"from": from_}).lines[-1][0] == LINES


def test_a_line_beyond_the_end_is_the_last_one() -> None:
    assert [number for number, _ in log_window("a\nb\n", {"from": "77"}).lines] == [2]


def test_a_search_finds_every_line_page_by_page(long: str) -> None:
    found, query = list[int](), {"q": "LINE 9999"}
    while True:
        window = log_window(long, query)
        found += [number for number, _ in window.lines]
        if window.newer is None:
            break
        query |= {"from": str(window.newer)}
    assert found == [number for number in range(1, LINES + 1) if str(number).startswith("9999")]
    assert log_window(long, {"q": "nothing"}).lines == ()
    many = log_window(long, {"q": "info"})
    assert (len(many.lines), many.newer) == (SHOWN, SHOWN + 1)


def test_the_newest_page_of_a_long_log_costs_little(long: str) -> None:
    assert cost(lambda: log_window(long, {})) < 6
