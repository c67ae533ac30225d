"""Label selectors."""

from __future__ import annotations

import pytest

from tenantry.cli.arguments.selecting import selector
from tenantry.cli.output.failing import Failure

LABELS = {"team": "crm", "tenantry.dev/source": "default", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("team=crm", True),
        ("team==crm", True),
        ("team=shop", False),
        ("team!=shop", True),
        ("team!=crm", False),
        ("other!=crm", True),
        ("team", True),
        ("other", False),
        ("!other", True),
        ("!team", False),
        ("empty=", True),
        ("tenantry.dev/source=default", True),
        ("team in (crm, shop)", True),
        ("team in (shop)", False),
        ("team notin (shop, web)", True),
        ("team=crm, !other", True),
        ("team in (crm, shop),tenantry.dev/source=default", True),
        ("team=crm,other", False),
    ],
)
def test_a_selector(text: str, selected: bool) -> None:
    assert selector(text)({"metadata": {"labels": LABELS}}) is selected


def test_an_object_without_labels_is_selected_by_what_it_lacks() -> None:
    assert selector("!team")({"metadata": {}})
    assert not selector("team")({"metadata": {"labels": None}})


@pytest.mark.parametrize("text", ["=crm", "team=crm,", "!team=crm", "team in crm", "a b"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="selects nothing; write team=crm"):
        selector(text)
