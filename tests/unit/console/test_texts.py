"""Texts of the console reach the templates by their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape

from tenantry.console.http import pages
from tenantry.console.texts import TEXTS

TEMPLATES = Path(pages.__file__).parents[1] / "templates"


@pytest.mark.parametrize("name", TEXTS)
def test_a_template_prints_the_text_of_that_name(name: str) -> None:
    printed = pages._TEMPLATES.from_string("{{ t." + name + " }}").render()
    assert printed == str(escape(TEXTS[name]))


def test_templates_hold_no_words_of_their_own() -> None:
    """Between tags there are only values: all texts stand in texts.py."""
    templates = sorted(TEMPLATES.glob("*.html"))
    assert templates
    for path in templates:
        bare = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}|<[^<>]*>|&\w+;", "\n", path.read_text("utf-8"), flags=re.DOTALL)
        words = set(re.findall(r"[A-Za-z]{2,}", bare))
        assert words <= {"URL", "KiB", "Tenantry", "operations", "from"}, path.name
