"""The commands of docs/healthy.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "healthy.md"


def commands_of(tool: str) -> list[tuple[str, str]]:
    """Return the title of each section with each of its commands that begin with a word."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
        title = section.partition("\n")[0]
        for block in re.findall(r"^```sh[^\n]*\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(title, line) for line in lines if line.split(maxsplit=1)[0] == tool]
    return found
