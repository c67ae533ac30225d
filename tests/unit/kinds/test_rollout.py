"""The choice of the engine that restarts next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenantry.kinds.region.rollout import LOOKS_AGAIN, Name, Turn, Wave, Waves, next_wave
from tenantry.kinds.region.spec import RolloutRules, Window

MONDAY_NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def names(*given: str) -> tuple[Name, ...]:
    return tuple(Name("t", each) for each in given)


def turn(name: str, **more: Any) -> Turn:
    return Turn(Name("t", name), **more)


def rules(**given: Any) -> RolloutRules:
    return RolloutRules.model_validate(given)


A, B, C = "abc"
TABLE: dict[str, tuple[RolloutRules, Waves, Wave]] = {
    "nothing waits": (rules(), Waves(), Wave()),
    "two at a time by default, by name": (rules(), Waves(early=names(C, B, A)), Wave(names(A, B))),
    "as many as are allowed": (rules(atOnce=3), Waves(early=names(A, B, C)), Wave(names(A, B, C))),
    "no more while some restart": (rules(), Waves((turn(A), turn(B)), early=names(C)), Wave()),
    "another when one runs again": (rules(), Waves((turn(A),), early=names(B, C)), Wave(names(B))),
    "none when more restart than are allowed now": (rules(atOnce=1), Waves((turn(A), turn(B)), early=names(C)), Wave()),
    "protected ones wait for those that wait": (rules(), Waves(early=names(B), protected=names(A)), Wave(names(B))),
    "protected ones wait for those that restart": (rules(), Waves((turn(B),), protected=names(A)), Wave()),
    "protected ones go when all others run": (rules(), Waves(protected=names(A)), Wave(names(A))),
    "protected ones go beside one another": (rules(), Waves((turn(B, protected=True),), protected=names(A)), Wave(names(A))),
    "protected ones wait until every engine was looked at": (
        rules(),
        Waves(protected=names(A), complete=False),
        Wave((), "looks at every engine before the last ones restart", MONDAY_NOON + LOOKS_AGAIN),
    ),
    "others need not wait for that": (rules(), Waves(early=names(B), protected=names(A), complete=False), Wave(names(B))),
    "those that are named last wait, too": (rules(last=["a"]), Waves(early=names(A, B)), Wave(names(B))),
    "those that are named last go before protected ones": (
        rules(last=["b"]),
        Waves(early=names(B), protected=names(A)),
        Wave(names(B)),
    ),
    "protected ones wait for those that are named last": (
        rules(last=["b"]),
        Waves((turn(B),), protected=names(A)),
        Wave(),
    ),
    "one that does not run goes first": (rules(atOnce=1), Waves(down=names(C), early=names(A)), Wave(names(C))),
    "one that does not run takes a turn": (rules(), Waves(down=names(C), early=names(A, B)), Wave(names(C, A))),
    "a failure pauses": (
        rules(),
        Waves((turn(A, failed=True),), early=names(B)),
        Wave(held="paused: the engine of t/a did not start"),
    ),
    "a failure keeps nobody from being mended": (
        rules(),
        Waves((turn(A, failed=True),), down=names(C), early=names(B)),
        Wave(names(C), "paused: the engine of t/a did not start"),
    ),
    "a failure pauses nothing where that is off": (
        rules(pauseOnFailure=False),
        Waves((turn(A, failed=True),), early=names(B, C)),
        Wave(names(B, C)),
    ),
    "a failure is told by three names": (
        rules(),
        Waves(tuple(turn(each, failed=True) for each in "abcd"), early=names("e")),
        Wave(held="paused: the engine of t/a, t/b, t/c and 1 more did not start"),
    ),
    "nothing is paused when nobody waits": (rules(), Waves((turn(A, failed=True),)), Wave()),
    "outside the window nobody goes": (
        rules(window={"start": "22:00", "hours": 4}),
        Waves(early=names(A)),
        Wave((), "waits for its window, which opens at 2026-11-23T22:00Z", datetime(2026, 11, 23, 22, 0, tzinfo=UTC)),
    ),
    "outside the window one that does not run goes": (
        rules(window={"start": "22:00", "hours": 4}),
        Waves(down=names(B), early=names(A)),
        Wave(names(B), "waits for its window, which opens at 2026-11-23T22:00Z", datetime(2026, 11, 23, 22, 0, tzinfo=UTC)),
    ),
    "in the window they go": (rules(window={"start": "11:30", "hours": 1}), Waves(early=names(A)), Wave(names(A))),
    "a window of the day before reaches over midnight": (
        rules(window={"start": "22:00", "hours": 15, "days": ["Sun"]}),
        Waves(early=names(A)),
        Wave(names(A)),
    ),
    "the window is open on its days only": (
        rules(window={"start": "11:00", "hours": 4, "days": ["Sat"]}),
        Waves(early=names(A)),
        Wave((), "waits for its window, which opens at 2026-11-28T11:00Z", datetime(2026, 11, 28, 11, 0, tzinfo=UTC)),
    ),
}


@pytest.mark.parametrize(("given", "waves", "wave"), TABLE.values(), ids=TABLE)
def test_who_is_next(given: RolloutRules, waves: Waves, wave: Wave) -> None:
    assert next_wave(given, waves, MONDAY_NOON) == wave


def test_every_rollout_ends_and_never_restarts_more_than_allowed() -> None:
    waiting, protected = set(names(*"abcdefgh")), set(names("p", "q"))
    restarting: set[Name] = set()
    order: list[Name] = []
    while waiting or protected or restarting:
        turns = tuple(Turn(each, protected=each.name in "pq") for each in sorted(restarting))
        wave = next_wave(rules(atOnce=3), Waves(turns, (), tuple(waiting), tuple(protected)), MONDAY_NOON)
        assert wave.granted or restarting, "nobody goes on"
        restarting |= set(wave.granted)
        assert len(restarting) <= 3
        waiting, protected = waiting - restarting, protected - restarting
        order.append(sorted(restarting)[0])
        restarting.discard(order[-1])
    assert {each.name for each in order[-2:]} == {"p", "q"}


def test_a_window_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ValueError, match="start"):
        Window.model_validate({"start": "25:00", "hours": 1})
