"""The digest of an edit does not depend on the random ends of the names that new Secrets get."""

from __future__ import annotations

import pytest

from tenantry.model.resource import Ref
from tenantry.runtime.planning.planned import Edited, Planned, without_ends


def made(*names: str, declared: str = "", kind: str = "Secret") -> Planned:
    """A plan that creates these, and an Identity that names each."""
    secrets = (Edited("+", Ref(kind, "tenant-acme", name), content="{}") for name in names)
    users = (Edited("+", Ref("Identity", "tenant-acme", f"u{at}"), content=name) for at, name in enumerate(names))
    return Planned((*secrets, *users), (), (), declared=declared)


def test_another_end_is_the_same_plan() -> None:
    assert made("ann-00000001", "ben-00000002").digest == made("ann-ffffffff", "ben-ffffffff").digest


@pytest.mark.parametrize(
    "other",
    [
        made("ben-00000001"),
        made("ann-0000000x"),
        made("ann-00000002", declared="d"),
        made("ann-00000002", kind="ConfigMap"),
        made("ann-00000001-x"),
    ],
    ids=["another name", "no random end", "a source", "another kind", "an end within"],
)
def test_another_name_is_another_plan(other: Planned) -> None:
    assert made("ann-00000001").digest != other.digest


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("a-00000001 b-00000001", ["a-00000001"], "a b-00000001"),
        ("a-00000001 bb-00000001", ["a-00000001", "bb-00000001"], "a bb"),
        ("a-00000001-00000002 a-00000001", ["a-00000001", "a-00000001-00000002"], "a a"),
        ("-00000001", ["a-00000001"], "-00000001"),
        ("Secret/t/a-00000001.", ["a-00000001"], "Secret/t/a."),
        ("a-00000001", [], "a-00000001"),
        ("a-00000001", ["a"], "a-00000001"),
    ],
)
def test_only_the_ends_of_those_names_go(text: str, names: list[str], expected: str) -> None:
    assert without_ends(text, names) == expected
