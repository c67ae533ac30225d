"""The scripts of others are the files of the npm package, byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tenantry.console.http.assets import ASSETS, HTMX_VERSION, VENDORED

CONSOLE = Path(__file__).parents[4] / "operator" / "tenantry" / "console"


@pytest.mark.parametrize("name", VENDORED)
def test_a_script_of_others_is_the_published_file(name: str) -> None:
    assert hashlib.sha256((CONSOLE / "static" / name).read_bytes()).hexdigest() == VENDORED[name]
    assert HTMX_VERSION in name
    assert "Zero-Clause BSD" in (CONSOLE / "static" / "htmx-LICENSE.txt").read_text("utf-8")


def test_every_script_is_ours_or_recorded() -> None:
    assert {path.name for path in (CONSOLE / "static").glob("*.js")} == {*VENDORED, "console.js"}


def test_the_address_of_a_file_changes_with_its_bytes() -> None:
    assert all(ASSETS.files[name].version in address for name, address in ASSETS.addresses.items())


def test_the_console_stays_within_its_sizes() -> None:
    def lines(pattern: str) -> int:
        texts = (path.read_text("utf-8") for path in CONSOLE.rglob(pattern))
        return sum(1 for text in texts for line in text.splitlines() if line.strip())

    assert lines("*.py") <= 3_000
    assert lines("*.html") <= 1_500
    assert lines("console.js") <= 300
