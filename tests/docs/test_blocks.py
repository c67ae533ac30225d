"""Each block of the documentation has a tag that says how it is checked, and the check is made."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest
import yaml

from tenantry.adapters.sources.read import read
from tenantry.kinds.admission import Admission
from tenantry.packages.parsing import parse_manifest
from tests.docs.guides import BLOCK, GUIDE_TAGS, GUIDES

ROOT = Path(__file__).parents[2]
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "examples/README.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
ITEM = re.compile(r"([-*]|\d+\.) ")
RUN = {
    ("README.md", "sh"): "tests/docs/test_readme.py",
    ("README.md", "sh gitops"): "tests/docs/test_readme.py",
    ("README.md", "sh release"): "tests/release/test_release.py",
    ("README.md", "sh uvx"): "tests/release/test_release.py",
    ("docs/healthy.md", "sh"): "tests/cluster/test_runbooks.py",
    **{(page, tag): "tests/docs/test_guides.py" for page in GUIDES for tag in GUIDE_TAGS},
}
"""The blocks that a test runs, and the test."""
CHECKED = {"sh example", "yaml", "yaml fragment", "json", "js", "text"}
"""Tags of other blocks. `text` is output, or a layout of folders. tests/docs/test_commands.py parses commands of `sh example`."""
ADMISSION = Admission()


class Block(NamedTuple):
    page: str
    tag: str
    text: str


def blocks() -> Iterator[Block]:
    """Yield each block of all pages."""
    for page in PAGES:
        for _, tag, text in BLOCK.findall(page.read_text("utf-8")):
            yield Block(page.relative_to(ROOT).as_posix(), tag, dedent(text))


def of(tag: str) -> list[Block]:
    found = [block for block in blocks() if block.tag == tag]
    assert found
    return found


def named(block: Block) -> str:
    return f"{block.page}: {block.text.partition(chr(10))[0][:40]}"


def test_every_block_has_a_tag() -> None:
    untagged = [named(block) for block in blocks() if block.tag not in CHECKED and (block.page, block.tag) not in RUN]
    assert untagged == [], f"tag it with one of {sorted(CHECKED)}, or run it and name the test in RUN"


def test_no_block_goes_without_a_fence() -> None:
    assert [page.name for page in PAGES if indented(BLOCK.sub("", page.read_text("utf-8")))] == []


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("Run:\n\n    make up\n", ["    make up"]),
        ("1. Run.\n\n    It ends.\n", []),
        ("- Run:\n\n        make\n", ["        make"]),
    ],
)
def test_an_indented_block_is_told_from_a_paragraph_of_a_list(page: str, found: list[str]) -> None:
    assert indented(page) == found


def indented(page: str) -> list[str]:
    """Return the first line of each indented block. In a list, paragraphs are indented by four, and blocks by eight."""
    found, deep, empty = [], 4, True
    for line in page.splitlines():
        if line[:1].strip():
            deep = 8 if ITEM.match(line) else 4
        elif line.strip() and empty and line.startswith(" " * deep):
            found.append(line)
        empty = not line.strip()
    return found


@pytest.mark.parametrize(("page", "tag", "test"), [(*key, test) for key, test in RUN.items()])
def test_the_test_that_runs_a_block_is_there(page: str, tag: str, test: str) -> None:
    assert (page, tag) in {(block.page, block.tag) for block in blocks()} or page in GUIDES
    assert (ROOT / test).exists()


def test_each_guide_has_blocks_that_are_run() -> None:
    run = {block.page for block in blocks() if block.tag == "sh"}
    assert [page for page in GUIDES if page not in run] == []


@pytest.mark.parametrize("block", of("sh example"), ids=named)
def test_an_example_is_sound_shell(block: Block) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("block", of("js"), ids=named)
def test_a_script_is_sound(block: Block) -> None:
    if shutil.which("node") is None:
        pytest.skip("NOT RUN: there is no Node.js")
    command = ["node", "--input-type=module", "--check", "-"]
    checked = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("block", of("yaml"), ids=named)
def test_yaml_is_admitted(block: Block) -> None:
    if "apiVersion: tenantry.dev/app/" in block.text:
        assert parse_manifest(block.text.encode()).id
        return
    documents = [raw.value for raw in read(block.text.encode())]
    assert documents
    for document in documents:
        ADMISSION.admit(document, None)


@pytest.mark.parametrize("block", of("yaml fragment"), ids=named)
def test_a_fragment_is_yaml(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


@pytest.mark.parametrize("block", of("json"), ids=named)
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)
