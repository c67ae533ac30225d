"""Failed tests run again: once in the configuration of their tier, then twice alone, each time in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.ci.results import Failure
from tests.ci.tiers import TIERS, Tier, run

ALONE = ("WORKERS=0",)
TURNS: tuple[tuple[str, ...], ...] = ((), ALONE, ALONE)


def rerun(failures: Sequence[Failure], out: Path, seconds_left: Callable[[], float]) -> dict[str, tuple[bool, ...]]:
    """Return whether each rerun passed, by the test's id. A test that there is no time for has no reruns."""
    tiers = {tier.name: tier for tier in TIERS}
    found: dict[str, tuple[bool, ...]] = {}
    for number, failure in enumerate(failures):
        turns: list[bool] = []
        for turn, arguments in enumerate(TURNS):
            if seconds_left() <= 0:
                break
            name = f"rerun-{number}-{turn}"
            turns.append(_passes(failure, tiers[failure.tier], out, name, arguments, seconds_left()))
            if not turns[-1]:
                break
        if len(turns) == len(TURNS) or not all(turns):
            found[failure.id] = tuple(turns)
    return found


def _passes(failure: Failure, tier: Tier, out: Path, name: str, arguments: tuple[str, ...], seconds: float) -> bool:
    chosen = out / f"{name}.txt"
    chosen.write_text(failure.id + "\n", "utf-8")
    again = run(tier, out, seconds, name, (f"TESTS=@{chosen}", *arguments))
    return again.results.passed > 0 and not again.results.failures
