"""Decide what a failed test means, by how its reruns went. Pure: `reruns` makes the runs, `__main__` prints the verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.ci.results import Failure

MOST_RERUN = 5
"""More failures than this are systemic, and none is run again."""
MOST_FLAKED = 2
_OF_FAULTS = re.compile(r"^tests/(crash|security)/|tenancy|linearizab", re.IGNORECASE)


class Kind(StrEnum):
    FAILED = "FAILED"
    FLAKED = "FLAKED"
    FAULT_SEEN = "FAULT SEEN"
    """Flaked, in a test of crashes, tenancy, security or linearizability: most likely a fault of the product."""
    QUARANTINED = "QUARANTINED"


@dataclass(frozen=True)
class Judged:
    """reruns: whether each rerun passed; empty where there was none."""

    failure: Failure
    kind: Kind
    reruns: tuple[bool, ...]
    forgiven: bool


def judge(
    failures: Sequence[Failure],
    reruns: Mapping[str, tuple[bool, ...]],
    touched: Callable[[str], bool],
    quarantined: frozenset[str],
) -> tuple[Judged, ...]:
    """Each failure with what it means. reruns: by the test's id. touched: does the change touch this file?

    At most two flaked tests are forgiven; with a third one, none is.
    """
    kinds = [(each, _kind(each, reruns.get(each.id, ()), quarantined)) for each in failures]
    flaked = sum(kind in (Kind.FLAKED, Kind.FAULT_SEEN) for _, kind in kinds)

    def forgiven(failure: Failure, kind: Kind) -> bool:
        if kind is Kind.FAULT_SEEN and touched(failure.file):
            return False
        return kind is Kind.QUARANTINED or (kind is not Kind.FAILED and flaked <= MOST_FLAKED)

    return tuple(Judged(each, kind, reruns.get(each.id, ()), forgiven(each, kind)) for each, kind in kinds)


def _kind(failure: Failure, reruns: tuple[bool, ...], quarantined: frozenset[str]) -> Kind:
    if failure.id in quarantined:
        return Kind.QUARANTINED
    if not reruns or not all(reruns):
        return Kind.FAILED
    return Kind.FAULT_SEEN if _OF_FAULTS.search(failure.id) else Kind.FLAKED


def to_rerun(failures: Sequence[Failure], quarantined: frozenset[str]) -> tuple[Failure, ...]:
    """The failures that are run again: none where too many failed, or where a tier failed that has no tests."""
    known = tuple(each for each in failures if each.id not in quarantined)
    if len(known) > MOST_RERUN or any("::" not in each.id for each in known):
        return ()
    return known
