"""The content of a declaration cannot move the cursor, hide text or turn its direction, whatever prints it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tenantry.cli.output.documents import OutputFormat, print_documents, write
from tenantry.cli.output.failing import say
from tenantry.cli.output.progress import Display
from tenantry.cli.output.tables import TextTable, print_table
from tenantry.cli.output.terminal import HIDDEN, visible

TRICKS = "\u202e\u2066\u200b\u200f\u2028\u061c\ufeff\x1b[31m\x07\x7f\x85\r\U000e0041\udc80"
DOCUMENT = {"kind": "Tenant", "metadata": {"name": f"acme{TRICKS}"}, "spec": {"displayName": f"é{TRICKS[:-1]}"}}


def hidden(text: str) -> list[str]:
    return [each for each in text if unicodedata.category(each) in HIDDEN and each not in "\n\t"]


@pytest.mark.parametrize(
    "shows",
    [
        lambda: write(f"a{TRICKS}"),
        lambda: say(f"a{TRICKS}"),
        lambda: Display(None).say(f"a{TRICKS}"),  # type: ignore[arg-type]
        lambda: print_table(TextTable(("NAME",), [(f"a{TRICKS}",)])),
        lambda: print_documents([DOCUMENT], OutputFormat.NAME, single=True),
        lambda: print_documents([DOCUMENT], OutputFormat.JSON, single=True),
        lambda: print_documents([{"spec": f"é{TRICKS[:-1]}"}], OutputFormat.YAML, single=True),
    ],
    ids=["a line", "an error", "progress", "a table", "names", "json", "yaml"],
)
def test_what_is_hidden_is_shown_as_its_escape(shows: Callable[[], Any], capsys: pytest.CaptureFixture[str]) -> None:
    shows()
    shown = "".join(capsys.readouterr())
    assert hidden(shown) == []
    assert "202e" in shown.lower()


def test_json_and_yaml_hold_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_documents([DOCUMENT], OutputFormat.JSON, single=True)
    assert json.loads(capsys.readouterr().out) == DOCUMENT
    seen = {"spec": {"displayName": "é \u202e \u2028"}}
    print_documents([seen], OutputFormat.YAML, single=True)
    assert yaml.safe_load(capsys.readouterr().out) == seen


@pytest.mark.parametrize("text", ["", "a\tb\nc", "Ünïcode 漢字 🙂", "a b"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert visible(text) == text


def test_the_width_of_a_column_is_that_of_what_is_shown() -> None:
    lines = str(TextTable(("A", "B"), [("\u202e", "x"), ("abcdef", "y")])).splitlines()
    assert {line.rindex(each) for line, each in zip(lines, "Bxy", strict=True)} == {9}
