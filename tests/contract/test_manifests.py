"""The same verdict, and the same field, wherever a manifest is applied: embedded here, on a real API server in tests/cluster.

manifests/good are accepted; manifests/bad are refused with the path of their first line (`# expect: spec.slug`; `''` is the
object as a whole); manifests/changes hold an object twice: the second is an update of the first, refused likewise or `ok`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.sources.read import read
from tenantry.kinds.admission import Admission
from tenantry.model.verdicts import Invalid

MANIFESTS = Path(__file__).parent / "manifests"


def _manifests(folder: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((MANIFESTS / folder).glob("*.yaml"))]


def _expected(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# expect: ").strip("'")


@pytest.fixture(scope="module")
def admission() -> Admission:
    return Admission()


@pytest.mark.parametrize("path", _manifests("good"))
def test_a_good_manifest_is_accepted(path: Path, admission: Admission) -> None:
    (manifest,) = read(path.read_bytes())

    assert admission.admit(manifest.value, None)["kind"] == manifest.value["kind"]


@pytest.mark.parametrize("path", _manifests("bad"))
def test_a_bad_manifest_is_refused_at_its_field(path: Path, admission: Admission) -> None:
    (manifest,) = read(path.read_bytes())

    with pytest.raises(Invalid) as refused:
        admission.admit(manifest.value, None)

    assert _expected(path) in {problem.field for problem in refused.value.problems}


@pytest.mark.parametrize("path", _manifests("changes"))
def test_a_change_is_judged_by_what_was_there(path: Path, admission: Admission) -> None:
    before, after = read(path.read_bytes())
    old = admission.admit(before.value, None)

    try:
        admission.admit(after.value, old)
        refused = {"ok"}
    except Invalid as error:
        refused = {problem.field for problem in error.problems}

    assert refused == {_expected(path)}


def test_the_corpus_is_large_enough() -> None:
    assert sum(1 for _ in MANIFESTS.rglob("*.yaml")) >= 80
