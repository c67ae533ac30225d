"""C16: one command writes a picture of each page of the console, in both themes and at each width, of two platforms."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenario.cli import PATIENCE_S
from tests.scenario.console.browser_place import CHROMIUM
from tests.scenario.tools import lacking

ROOT = Path(__file__).parents[3]
PAGES = ("fleet", "environments-one")
WRITTEN = {
    (platform, f"{page}-{theme}-{width}.png"): width
    for platform, pages in (("example", PAGES), ("empty", PAGES[:1]))
    for page in pages
    for theme in ("light", "dark")
    for width in (390, 1440)
}
"""The files, each with the width of its picture. The empty platform has no environment."""
pytestmark = pytest.mark.slow


def test_each_page_has_a_picture_in_both_themes_at_each_width(tmp_path: Path) -> None:
    if CHROMIUM is None:
        lacking("no chromium here: apt-get install chromium")
    command = (sys.executable, "-m", "tests.screens", "--out", str(tmp_path), "--only", ",".join(PAGES))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    pictures = {(path.parent.name, path.name): path.read_bytes() for path in tmp_path.rglob("*.png")}
    assert {name: struct.unpack(">I", raw[16:20])[0] for name, raw in pictures.items()} == WRITTEN
    assert len(set(pictures.values())) == len(pictures), "no two pictures are the same"
