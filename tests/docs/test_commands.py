"""Commands of the documentation exist, with the options that they are given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from tenantry.cli.command_line import app
from tests.support.unchecked_paths import unchecked_paths

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```(?:sh|bash|console)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
GROUP = typer.main.get_command(app)
assert isinstance(GROUP, TyperGroup)


def commands() -> Iterator[tuple[str, str]]:
    """Yield each command of tenantry in a block of shell, with its page."""
    for page in PAGES:
        lines = [line for block in BLOCK.findall(page.read_text()) for line in dedent(block).replace("\\\n", " ").splitlines()]
        parts = [part.strip() for line in lines for part in re.split(r"&&|\|\|?|;", line.removeprefix("$ "))]
        for words in parts:
            if re.match(r"(\S*/)?tenantry(\s|$)", words):
                yield str(page.relative_to(ROOT)), words


def parse(words: str) -> None:
    """Parse as the command line does, and do nothing. Raises TyperException."""
    plain = re.sub(r"\s\d?[<>]+&?\s*\S+|\s&$", "", words)  # without redirections
    given = shlex.split(plain, comments=True)[1:]
    command: Any = GROUP
    name: str | None = "tenantry"
    parent: Any = None
    while True:
        if {"--help", "-h", "--version"} & set(given[:1]):
            return
        with unchecked_paths(command), command.make_context(name, list(given), parent=parent) as context:
            if not isinstance(command, TyperGroup) or not context._protected_args:
                return
            name, command, given = command.resolve_command(context, [*context._protected_args, *context.args])
            parent = context


@pytest.mark.parametrize(("page", "words"), sorted(set(commands())))
def test_a_command_is_one_that_tenantry_knows(page: str, words: str) -> None:
    try:
        parse(words)
    except TyperException as wrong:
        pytest.fail(f"{page}: {words}: {wrong}")


@pytest.mark.parametrize("words", ["tenantry gets", "tenantry get --everywhere", "tenantry describe"])
def test_one_that_it_does_not_know_is_found(words: str) -> None:
    with pytest.raises(TyperException):
        parse(words)


def below(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each command that the help shows, with its words."""
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield " ".join((*path, name)), each
            yield from below(each, (*path, name))


REFERENCE = (ROOT / "docs" / "cli.md").read_text("utf-8")
"""The page that describes the command line."""


@pytest.mark.parametrize(("words", "command"), [*below(GROUP)], ids=lambda each: each if isinstance(each, str) else "")
def test_the_reference_names_every_command_with_its_options(words: str, command: Any) -> None:
    assert re.search(rf"`(tenantry )?{words}\b", REFERENCE), f"describe `{words}` in docs/cli.md"
    lacking = [
        each.opts
        for each in command.params
        if each.param_type_name == "option" and not any(map(named, each.opts)) and not each.hidden
    ]
    assert lacking == [], f"name the options of `{words}` in docs/cli.md"


def named(option: str) -> bool:
    return re.search(rf"`[^`]*(?<![\w-]){option}(?![\w-])[^`]*`", REFERENCE) is not None
