"""docs/security-model.md publishes the table of references as it is tried, and each row has a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scenario.references.references import REFERENCES, as_markdown

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_table_as_it_is_tried() -> None:
    assert as_markdown() in (ROOT / "docs" / "security-model.md").read_text("utf-8")


@pytest.mark.parametrize("name", REFERENCES)
def test_each_reference_is_tried(name: str) -> None:
    reference = REFERENCES[name]
    assert reference.after is not None or reference.proofs
    for proof in reference.proofs:
        file, _, test = proof.partition("::")
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), proof
