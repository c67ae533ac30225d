"""Check that concurrent operations on one key could have happened one at a time, each between its call and its answer.

Configurations are followed through the history (Lowe, "Testing for linearizability", 2017): what the key holds, and which of the
operations under way have already happened. An operation whose caller was killed happened before the kill, or never.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

ABSENT = ""
Verb = Literal["create", "swap", "delete", "read"]


@dataclass(frozen=True)
class Called:
    """An operation begins. value: what it writes; expected: what a swap or a deletion must find."""

    id: int
    verb: Verb
    value: str = ABSENT
    expected: str = ABSENT


@dataclass(frozen=True)
class Answered:
    """An operation ends. done: its effect took place; seen: what a read found."""

    id: int
    done: bool
    seen: str = ABSENT


@dataclass(frozen=True)
class Killed:
    """Whoever has no answer yet gets none."""


Moment = Called | Answered | Killed
Configuration = tuple[str, frozenset[int]]


def first_contradiction(history: Iterable[Moment]) -> int | None:
    """Return the index of the first answer that no order explains, or None."""
    moments = list(history)
    answers = {each.id: each for each in moments if isinstance(each, Answered)}
    open_: dict[int, Called] = {}
    configurations: set[Configuration] = {(ABSENT, frozenset())}
    for index, moment in enumerate(moments):
        match moment:
            case Called():
                open_[moment.id] = moment
            case Answered():
                reached = _closure(configurations, open_, answers)
                configurations = {(held, done - {moment.id}) for held, done in reached if moment.id in done}
                del open_[moment.id]
                if not configurations:
                    return index
            case Killed():
                configurations = {(held, frozenset()) for held, _ in _closure(configurations, open_, answers)}
                open_.clear()
    return None


def _closure(configurations: set[Configuration], open_: dict[int, Called], answers: dict[int, Answered]) -> set[Configuration]:
    """Return all that can be reached by letting operations under way happen."""
    found, waiting = set(configurations), list(configurations)
    while waiting:
        held, done = waiting.pop()
        for id_, called in open_.items():
            after = None if id_ in done else _after(held, called, answers.get(id_))
            if after is not None and (reached := (after, done | {id_})) not in found:
                found.add(reached)
                waiting.append(reached)
    return found


def _after(held: str, called: Called, answer: Answered | None) -> str | None:
    """Return what the key holds after the operation; None where its answer could not have been given then."""
    if called.verb == "read":
        return held if answer is None or answer.seen == held else None
    fits = held == (ABSENT if called.verb == "create" else called.expected)
    if answer is not None and answer.done != fits:
        return None
    return called.value if fits else held
