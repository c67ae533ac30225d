"""A number beside a noun: one object is no `1 objects`. `counted` of model/wording.py writes both forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.model.wording import counted
from tests.support.parsed_code import text_of

PACKAGE = Path(__file__).parents[2] / "operator" / "tenantry"
NOUNS = (
    "apps", "archives", "backups", "changes", "characters", "columns", "digits", "documents", "engines", "environments", "fields",
    "files", "hours", "identities", "items", "keys", "levels", "namespaces", "objects", "operations", "others", "packages",
    "pods", "problems", "regions", "replicas", "rows", "steps", "tables", "tenants", "times", "users", "versions",
)  # fmt: skip
FILLED = re.compile(rf"\{{([^{{}}]+)\}} (?:more |older |other )?(?:{'|'.join(NOUNS)})\b")
"""A filled-in value before a noun, in an f-string."""
CONSTANT = re.compile(r"[A-Z_][A-Z_0-9]*(\[.*\]|:,)?")
"""Limits of the platform, none of which is 1."""
NOT_ONE = {
    "self.rows": "model/facts.py writes one row itself: it may not import pydantic",
    "step.rows": "a digest that people declare, which stays as it is",
    "len(alike)": "there are several",
    "joins": "more than a limit",
    "len(value)": "more than a limit",
    "limits.ratio": "a limit of the platform",
    "self._limits.entries:,": "a limit of the platform",
    "most": "a limit of a database",
    "layout.width": "of a terminal",
    "ref.kind": "no number",
    "'This step destroys' if len(losing) == 1 else 'These steps destroy'": "no number",
}
"""Values that are never 1, or no number, with the reason."""


def written() -> Iterator[tuple[str, str]]:
    for module in sorted(PACKAGE.rglob("*.py")):
        for found in FILLED.finditer(text_of(module)):
            yield str(module.relative_to(PACKAGE)), found[1]


def test_a_noun_that_is_counted_has_a_singular() -> None:
    plain = [(module, value) for module, value in written() if not CONSTANT.fullmatch(value) and value not in NOT_ONE]
    assert plain == [], "use `counted` of model/wording.py"


def test_each_exception_is_needed() -> None:
    assert NOT_ONE.keys() <= {value for _, value in written()}


@pytest.mark.parametrize(("number", "text"), [(0, "0 objects"), (1, "1 object"), ("1", "1 object"), (2, "2 objects")])
def test_one_is_singular(number: int | str, text: str) -> None:
    assert counted(number, "object") == text
