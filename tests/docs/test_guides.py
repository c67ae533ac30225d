"""Guides work as they are written: their blocks, in order, in one shell, from an empty folder, beside `tenantry up`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.docs.guides import BLOCK, GUIDES, ROOT

BIN = Path(sys.executable).parent
PAGE_S = 1200
"""The longest that a page may take, on a machine with other work."""
ADDRESS = "127.0.0.1:8080"
VARYING = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UUID",
    r"op-[0-9a-f]{24}": "OPERATION",
    r"idn-[0-9a-f]{16}": "IDENTITY",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?": "TIME",
    r"@[0-9a-f]{12}\b": "@DIGEST",
    r"ed25519:\S+": "KEY",
    r"\b\d+(\.\d+)?(B|KiB|MiB)\b": "SIZE",
    r"\b\d+[smhd](\d+s)?\b": "AGE",
    r"\s+": " ",
}
"""Texts that differ between two runs, and blanks: the width of a column depends on such texts."""
FUNCTIONS = """
set -Eeuo pipefail
trap 'echo "a command of the block above failed" >&2' ERR
start() {
  : > up.log
  bash -c "$1" > up.log 2>&1 &
  up=$!
  for ((second = 0; second < 300; second++)); do grep -q '^  http://' up.log && return; kill -0 $up; sleep 1; done
  return 1
}
stop() { kill -INT -- "-$up" 2> /dev/null || kill -INT $up; wait $up 2> /dev/null || true; }
trap 'kill -- -$up 2> /dev/null || true' EXIT
up=
set -m
"""


class Step(NamedTuple):
    """A block of a page, and the output that the page shows below it."""

    tag: str
    text: str
    shown: str | None


def steps(page: str) -> list[Step]:
    found: list[Step] = []
    for _, tag, text in BLOCK.findall(page):
        if tag == "text output":
            found[-1] = found[-1]._replace(shown=dedent(text))
        elif tag in ("sh", "sh fails", "sh up", "text stop"):
            found.append(Step(tag, dedent(text), None))
    return found


def script(page: list[Step]) -> str:
    """Return all blocks as one program. The output of each follows a line with its number."""
    parts = [FUNCTIONS]
    for number, step in enumerate(page):
        parts.append(f"echo '===== {number}'")
        match step.tag:
            case "sh up":
                parts.append(f"start {quoted(step.text)}")
            case "text stop":
                parts.append("stop")
            case "sh fails":
                parts.append(f"trap - ERR; set +eE\n{step.text}\ncode=$?; set -eE; [ $code = 1 ] || exit 1")
            case _:
                parts.append(step.text)
    return "\n".join(parts)


def quoted(text: str) -> str:
    return "'" + text.strip().replace("'", "'\\''") + "'"


def plain(text: str) -> str:
    for pattern, word in VARYING.items():
        text = re.sub(pattern, word, text)
    return text.strip()


@pytest.mark.parametrize(
    ("shown", "seen", "same"),
    [
        ("op-0123456789abcdef01234567  8s", "op-1123456789abcdef01234567   41s", True),
        ("app/dev.notes is Ready", "app/dev.notes is not Ready", False),
        ("1 to change", "2 to change", False),
    ],
)
def test_only_what_varies_is_left_out_of_a_comparison(shown: str, seen: str, same: bool) -> None:
    assert (plain(shown) == plain(seen)) is same


@pytest.mark.slow
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_works_as_it_is_written(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = f"127.0.0.1:{free.getsockname()[1]}"
    page = steps((ROOT / name).read_text("utf-8"))
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1", "TENANTRY_LISTEN": here}
    with (tmp_path / "told").open("w+") as out:
        folder = tmp_path / "empty"
        folder.mkdir()
        command = ["bash", "-c", script(page).replace(ADDRESS, here)]
        done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, timeout=PAGE_S, check=False)
    told = (tmp_path / "told").read_text().replace(here, ADDRESS)
    assert done.returncode == 0, told
    seen = dict(re.findall(r"^===== (\d+)\n(.*?)(?=^===== |\Z)", told, re.MULTILINE | re.DOTALL))
    for number, step in enumerate(page):
        if step.shown is not None:
            assert plain(seen[str(number)]) == plain(step.shown), f"{step.text}\n{told}"


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_says_what_one_needs_and_what_to_do_when_it_does_not_work(name: str) -> None:
    page = (ROOT / name).read_text("utf-8")
    assert re.search(r"^(Afterwards|At the end)\b.*?^You need ", page, re.MULTILINE | re.DOTALL), "it opens with both"
    assert re.findall(r"^## (.*)$", page, re.MULTILINE)[-1] == "If it does not work"
