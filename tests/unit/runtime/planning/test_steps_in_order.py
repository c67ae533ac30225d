"""The lines of a plan do not depend on which of two objects had its pass first."""

from __future__ import annotations

from itertools import permutations

from tenantry.model.changes import Change, DeleteSecret, UndeployEngine
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Ref
from tenantry.runtime.planning.planned import Edited, Planned

FIRST, SECOND, OTHER = (Ref("Environment", "tenant-acme", name) for name in ("zeta", "dev", "alpha"))


def effects_of(ref: Ref) -> list[tuple[Ref, Change]]:
    """Two effects of one object, whose order counts."""
    return [
        (ref, DeleteSecret(Ref("Secret", ref.namespace, f"{ref.name}-admin"))),
        (ref, UndeployEngine(EngineRef(ref.namespace, ref.name, f"id-of-{ref.name}"))),
    ]


def test_effects_stand_in_the_order_of_the_edits_then_by_name() -> None:
    edits = (Edited("-", FIRST), Edited("-", SECOND))
    texts = {
        tuple(map(str, Planned(edits, tuple(each for ref in refs for each in effects_of(ref)), ()).steps))
        for refs in permutations((FIRST, SECOND, OTHER))
    }
    (lines,) = texts
    objects = [line.split(":")[0].strip(" -/+") for line in lines[len(edits) :]]
    assert objects == [name for name in ("tenant-acme/zeta", "tenant-acme/dev", "tenant-acme/alpha") for _ in range(2)]
