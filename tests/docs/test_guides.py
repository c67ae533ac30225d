"""Guides work as they are written: their blocks, in order, in one shell, from an empty folder, beside `tenantry up`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.docs.guides import BLOCK, GUIDE_TAGS, GUIDES, ROOT
from tests.support.ports import free_port

BIN = Path(sys.executable).parent
PAGE_S = 1200
"""The longest that a page may take, on a machine with other work."""
PLATFORM, SERVER = "8080", "9400"
"""The ports that pages name: of the platform, and of a server beside it. Each run takes free ones."""
VARYING = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UUID",
    r"op-[0-9a-f]{24}": "OPERATION",
    r"idn-[0-9a-f]{16}": "IDENTITY",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?": "TIME",
    r"\b[0-9a-f]{12}\b": "DIGEST",
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
serve() {
  bash -c "$1" > server.log 2>&1 &
  server=$!
  for ((second = 0; second < 60; second++)); do curl -s -o /dev/null "127.0.0.1:$2" && return; kill -0 $server; sleep 1; done
  return 1
}
stop() { kill -INT -- "-$up" 2> /dev/null || kill -INT $up; wait $up 2> /dev/null || true; }
trap 'for job in $(jobs -p); do kill -- "-$job" 2> /dev/null || true; done' EXIT
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
        elif tag in GUIDE_TAGS:
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
            case "sh server":
                parts.append(f"serve {quoted(step.text)} {SERVER}")
            case "text stop":
                parts.append("stop")
            case "sh fails":
                parts.append(f"trap - ERR; set +eE\n{step.text}\ncode=$?; set -eE; [ $code = 1 ] || exit 1")
            case _:
                parts.append(step.text)
    return "\n".join(parts)


def quoted(text: str) -> str:
    return "'" + text.strip().replace("'", "'\\''") + "'"


def replaced(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = re.sub(rf"\b{word}\b", other, text)
    return text


def plain(text: str) -> str:
    for pattern, word in VARYING.items():
        text = re.sub(pattern, word, text)
    return text.strip()


@pytest.mark.parametrize(
    ("shown", "seen", "same"),
    [
        ("op-0123456789abcdef01234567  8s", "op-1123456789abcdef01234567   41s", True),
        ("bakery.yaml:16  4f0c2b9d1e77", "bakery.yaml:16  0123456789ab", True),
        ("app/dev.notes is Ready", "app/dev.notes is not Ready", False),
        ("1 to change", "2 to change", False),
    ],
)
def test_only_what_varies_is_left_out_of_a_comparison(shown: str, seen: str, same: bool) -> None:
    assert (plain(shown) == plain(seen)) is same


@pytest.mark.slow
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_works_as_it_is_written(name: str, tmp_path: Path) -> None:
    ports = {port: str(free_port()) for port in (PLATFORM, SERVER)}
    page = steps((ROOT / name).read_text("utf-8"))
    listen = {"TENANTRY_LISTEN": f"127.0.0.1:{ports[PLATFORM]}"}
    environment = os.environ | listen | {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"}
    with (tmp_path / "told").open("w+") as out:
        folder = tmp_path / "empty"
        folder.mkdir()
        command = ["bash", "-c", replaced(script(page), ports)]
        done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=out, timeout=PAGE_S, check=False)
    told = replaced((tmp_path / "told").read_text(), {free: port for port, free in ports.items()})
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
