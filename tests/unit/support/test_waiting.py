"""A wait that ends in vain says what did not come, and what was there instead."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support import waiting
from tests.support.waiting import AGAIN_S, SELDOM_S, eventually, until

SHORT_S = 0.02


async def test_the_answer_of_the_condition_is_returned() -> None:
    answers = iter([0, "", "found"])
    assert until(lambda: next(answers)) == "found"
    later: Iterator[int | list[int] | None] = iter([None, [], 7])

    async def asked() -> int | list[int] | None:
        return next(later)

    assert await eventually(asked) == 7


async def test_a_wait_in_vain_names_its_condition_its_last_answer_and_what_there_was() -> None:
    seen = ["one"]
    told = r"not within 0 s: .*len\(seen\) > 1.*; it was False at last; there is \['one'\]"
    with pytest.raises(AssertionError, match=told):
        until(lambda: len(seen) > 1, within=SHORT_S, shows=lambda: seen)
    with pytest.raises(AssertionError, match=told):
        await eventually(lambda: len(seen) > 1, within=SHORT_S, shows=lambda: seen)


async def test_a_condition_that_does_not_answer_is_given_up() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: Event\.wait; it was None at last"):
        await eventually(asyncio.Event().wait, within=SHORT_S)


@pytest.mark.parametrize(
    ("waited_s", "looked_s", "pause_s"),
    [
        pytest.param(0.0, 0.0, AGAIN_S, id="at first"),
        pytest.param(5.0, 0.001, 0.05, id="after a while"),
        pytest.param(0.1, 0.03, 0.09, id="a costly look"),
        pytest.param(50.0, 2.0, SELDOM_S, id="at most"),
    ],
)
def test_long_waits_and_costly_looks_leave_the_cores_to_what_is_waited_for(
    waited_s: float, looked_s: float, pause_s: float
) -> None:
    assert waiting._pause(waited_s, looked_s) == pytest.approx(pause_s)
