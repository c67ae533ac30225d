"""The parts of a plan are put together in steps that grow with the plan, and not with its square."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import orjson
import pytest

from tenantry.model.changes import EnsureNamespace
from tenantry.model.resource import Ref
from tenantry.runtime.planning.planned import Edited, Planned
from tenantry.runtime.planning.planner import _stamped

FEW = 1_000
MOST_TIMES = 15
"""A plan of ten times as many documents may take this many times the steps."""
LOOKS = sorted(name for name, each in vars(Planned).items() if isinstance(each, property))


class TooManySteps(Exception):  # noqa: N818 - it ends what is counted
    """The count has reached its limit."""


def steps_of(work: Callable[[], Any], most: int = sys.maxsize) -> int:
    """Return the number of instructions of the interpreter, and of characters that methods of texts have before them.

    Raises TooManySteps, so that nobody waits for a quadratic one.
    """
    count = 0

    def called(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        text = getattr(arg, "__self__", None)
        if event == "c_call" and isinstance(text, str | bytes):
            count += len(text)
        if count > most:
            raise TooManySteps

    def traced(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        if count > most:
            raise TooManySteps
        return traced

    before, watched = sys.gettrace(), sys.getprofile()
    gc.disable()  # what others do after a collection is not counted, and would swallow the end
    sys.setprofile(called)
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
        sys.setprofile(watched)
        gc.enable()
    return count


def grows_with_the_plan(work: Callable[[Planned], Any], few: int = FEW) -> bool:
    steps = steps_of(lambda: work(planned(few)))
    try:
        steps_of(lambda: work(planned(10 * few)), MOST_TIMES * steps)
    except TooManySteps:
        return False
    return True


def ref(number: int) -> Ref:
    return Ref("Identity", "tenant-acme", f"i-{number}")


def planned(count: int) -> Planned:
    """A plan that edits so many objects, each with a new Secret, and has an effect on each."""
    effect = EnsureNamespace("tenant-acme", "acme", "uid")
    refs = [ref(number) for number in range(count)]
    secrets = [Edited("+", Ref("Secret", "tenant-acme", f"i-{number}-{number:08x}")) for number in range(count)]
    return Planned((*secrets, *(Edited("~", each) for each in refs)), tuple((each, effect) for each in refs), ())


def bodies(count: int) -> dict[Ref, bytes]:
    return {
        ref(number): orjson.dumps({"metadata": {"uid": str(number), "generation": 1, "resourceVersion": "1"}})
        for number in range(count)
    }


def test_a_property_that_costs_is_found_inside_a_comprehension() -> None:
    refs = [ref(number) for number in range(1_000)]
    assert not grows_with_the_plan(lambda plan: [each for each in refs[: len(plan.edits)] if each in plan.concerns], few=20)


def test_a_text_that_is_searched_once_for_each_object_is_found() -> None:
    def searched(plan: Planned) -> str:
        told = "-" * len(plan.edits)
        for _ in plan.edits:
            told = told.replace("x", "")
        return told

    assert not grows_with_the_plan(searched, few=50)


@pytest.mark.slow
def test_what_was_found_is_put_to_a_plan_in_steps_that_grow_with_it() -> None:
    assert grows_with_the_plan(lambda plan: _stamped(plan, "", bodies(len(plan.edits)), {"tenant-acme": "uid"}))


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_each_look_at_a_plan_takes_steps_that_grow_with_it(look: str) -> None:
    assert grows_with_the_plan(lambda plan: getattr(plan, look))


@pytest.mark.slow
@pytest.mark.parametrize("answer", [Planned.to_json, lambda plan: plan.within("tenant-acme")], ids=["json", "within"])
def test_an_answer_takes_steps_that_grow_with_its_plan(answer: Callable[[Planned], Any]) -> None:
    assert grows_with_the_plan(answer)
