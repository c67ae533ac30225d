"""The style of the console: its motion is short and can be switched off, and each state has a colour, an icon and a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenantry.console.http import pages
from tenantry.console.texts import STATES as WORDS
from tenantry.kinds.states import STATES

CONSOLE = Path(pages.__file__).parents[1]
STYLE = (CONSOLE / "static" / "console.css").read_text("utf-8")
LONGEST_MS = 150


def test_motion_is_short_and_only_for_those_who_did_not_ask_for_none() -> None:
    allowed = re.findall(r"@media \(prefers-reduced-motion: no-preference\) {.*}", STYLE)
    assert re.findall(r"transition|animation|scroll-behavior", STYLE.replace("".join(allowed), "")) == []
    times = [
        1000 * float(number) if unit == "s" else float(number) for number, unit in re.findall(r"([\d.]+)(m?s)\b", allowed[0])
    ]
    assert times and max(times) <= LONGEST_MS


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_a_word_two_colours_in_each_theme_and_an_icon_of_its_own(state: str) -> None:
    assert WORDS[state]
    light, dark = (len(re.findall(rf"--{state}{part}: #", STYLE)) for part in ("", "-ground"))
    # Printed pages have a colour of their own for what needs somebody.
    assert (light - (state == "needs-you"), dark) == (2, 2)
    assert f".state.{state} {{ color: var(--{state}); background: var(--{state}-ground); }}" in STYLE
    icons = {each: pages._TEMPLATES.from_string(f'{{% import "parts.html" as p %}}{{{{ p.icon("{each}") }}}}') for each in STATES}
    drawn = {each: template.render() for each, template in icons.items()}
    assert [each for each in STATES if drawn[each] == drawn[state]] == [state]
