"""Fields that an API server reports as unknown: the nearest field of the same object is suggested, for every kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenantry.kinds import crds
from tenantry.kinds.suggesting import suggesting
from tenantry.model.verdicts import Invalid, Problem


def fields() -> Iterator[tuple[str, str, str]]:
    for kind in crds.KINDS:
        for name in crds.object_schema(kind)["properties"].get("spec", {}).get("properties", {}):
            if len(name) > 4:
                yield kind.KIND, f"spec.{name[:2]}{name[3]}{name[2]}{name[4:]}", name


def reason(kind: str, field: str) -> str:
    return suggesting(kind, Invalid((Problem(field, f'unknown field "{field}"'),))).problems[0].reason


@pytest.mark.parametrize(("kind", "written", "meant"), [*fields()])
def test_every_field_is_suggested_for_its_misspelling(kind: str, written: str, meant: str) -> None:
    assert written.removeprefix("spec.") == meant or reason(kind, written) == f'unknown field "{written}"; did you mean {meant}?'


@pytest.mark.parametrize(
    ("kind", "field", "hint"),
    [
        ("Environment", "spec.engine.sise", "; did you mean size?"),
        ("Identity", "spec.roles[0].ap", "; did you mean app?"),
        ("Secret", "strinData", "; did you mean stringData?"),
        ("Environment", "metadata.lables", "; did you mean labels?"),
        ("Environment", "spec.engine.size", "; the cluster's definitions are of another release"),
        ("Environment", "spec.colour", ""),
        ("Environment", "spec.engine.nowhere.sise", ""),
        ("ConfigMap", "dta", ""),
    ],
)
def test_a_field_is_looked_for_beside_its_neighbours(kind: str, field: str, hint: str) -> None:
    assert reason(kind, field) == f'unknown field "{field}"{hint}'


def test_other_refusals_stay_as_they_are() -> None:
    refused = Invalid((Problem("spec.slug", "Required value"),))
    assert suggesting("Environment", refused).problems == refused.problems
