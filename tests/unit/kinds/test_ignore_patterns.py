"""A pattern of Source.spec.ignore is refused at admission exactly where a sync could not use it."""

from __future__ import annotations

from itertools import product

import pytest

from tenantry.adapters.sources.ignoring import BadPatternError, IgnoreRules
from tenantry.kinds.admission import Admission
from tenantry.model.resource import API_VERSION, Document
from tenantry.model.verdicts import Invalid


def source(*patterns: str) -> Document:
    spec = {"url": "https://git.example.com/a.git", "ignore": list(patterns)}
    return {"apiVersion": API_VERSION, "kind": "Source", "metadata": {"name": "s", "namespace": "n"}, "spec": spec}


def refused(*patterns: str) -> set[str]:
    """The fields that admission names."""
    try:
        Admission().admit(source(*patterns))
    except Invalid as error:
        return {each.field for each in error.problems}
    return set()


def usable(pattern: str) -> bool:
    try:
        IgnoreRules([pattern])
    except BadPatternError:
        return False
    return True


def test_all_short_patterns_are_refused_where_they_cannot_be_used() -> None:
    patterns = ["".join(each) for length in range(1, 5) for each in product(r"a[]!\/-# ", repeat=length)]
    wrong = []
    for at in range(0, len(patterns), 100):
        batch = patterns[at : at + 100]
        expected = {f"spec.ignore[{number}]" for number, each in enumerate(batch) if not usable(each)}
        if (found := refused(*batch)) != expected:
            wrong += sorted(batch[int(each[12:-1])] for each in found ^ expected)
    assert wrong == []


@pytest.mark.parametrize("pattern", ["[a", "a\\", "x/[a/b]", "[]", "![a"])
def test_a_pattern_that_cannot_be_used_is_refused_by_its_field(pattern: str) -> None:
    with pytest.raises(Invalid) as caught:
        Admission().admit(source("charts/", pattern))
    (problem,) = caught.value.problems
    assert problem.field == "spec.ignore[1]" and "as in a .gitignore file" in problem.reason
