"""The time for which a slow statement goes to threads."""

from __future__ import annotations

from tenantry.engine.sql.quick.pauses import FIRST_S, LONGEST_S, MOST, Pauses


def test_a_pause_doubles_while_a_statement_is_slow_again_and_ends_with_a_quick_one() -> None:
    now = [0.0]
    pauses = Pauses(lambda: now[0])
    lasted = []
    for _ in range(8):
        pauses.begin("a")
        began = now[0]
        while pauses.holds("a"):
            now[0] += FIRST_S / 4
        lasted.append(now[0] - began)
    assert lasted == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S, 16 * FIRST_S, LONGEST_S, LONGEST_S, LONGEST_S]
    pauses.end("a")
    pauses.begin("a")
    now[0] += FIRST_S
    assert not pauses.holds("a")


def test_a_pause_is_of_its_own_statement_and_few_are_remembered() -> None:
    pauses = Pauses(lambda: 0.0)
    for number in range(MOST + 1):
        pauses.begin(str(number))
    assert not pauses.holds("b") and not pauses.holds("0")
    assert pauses.holds("1") and pauses.holds(str(MOST))
