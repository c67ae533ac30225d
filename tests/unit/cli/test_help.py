"""The help of every command ends with examples, and each of them is a call that the command takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tenantry.cli.command_line import GROUPS, app
from tests.docs import prose
from tests.scenario.cli import called
from tests.support.unchecked_paths import unchecked_paths

ROOT: Any = typer.main.get_command(app)
ASSIGNMENT = re.compile(r"[A-Z_]+=\S+")


def parsers(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from parsers(below, (*path, name))


SHOWN = {path: command for path, command in parsers(ROOT) if not command.hidden}


def examples(command: Any) -> list[str]:
    return re.findall(r"^\$ (.+)$", command.epilog or "", re.MULTILINE)


@pytest.mark.parametrize("path", SHOWN)
def test_the_help_ends_with_an_example_of_that_command(path: str) -> None:
    found = examples(SHOWN[path])
    assert found
    assert all(f"tenantry {path}".strip() in each for each in found)


@pytest.mark.parametrize(("path", "example"), [(path, each) for path, command in SHOWN.items() for each in examples(command)])
def test_an_example_is_a_call_that_the_command_takes(path: str, example: str) -> None:
    words = shlex.split(re.split(r" [|<>] ", example)[0])
    while ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    command, context = ROOT, None
    assert words.pop(0) == "tenantry"
    name = "tenantry"
    while True:
        with unchecked_paths(command):
            context = command.make_context(name, list(words), parent=context)
        if not getattr(command, "commands", None) or not context._protected_args:
            break
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    assert context.command_path.removeprefix("tenantry").strip().startswith(path)


def test_the_examples_stand_at_the_end_of_what_is_printed(tmp_path: Path) -> None:
    lines = called("get", "--help", cwd=tmp_path).stdout.split("\n")
    assert [line.strip() for line in lines if line.strip()][-2:] == [f"$ {each}" for each in examples(SHOWN["get"])]


@pytest.mark.parametrize("path", SHOWN)
def test_help_at_80_columns_cuts_no_word_and_marks_what_is_optional_once(path: str) -> None:
    printed = re.sub(r"\x1b\[[\d;]*m", "", called(*path.split(), "--help", cwd=Path(), columns=80).stdout)
    words = {word for line in printed.splitlines() for word in line.split()}
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert "[[" not in printed
    assert [word for word in words if len(word) > 1 and word.startswith("<") and word.count("<") != word.count(">")] == []


@pytest.mark.parametrize("path", SHOWN)
def test_an_object_is_named_by_one_word_or_by_two(path: str) -> None:
    """`environment/dev`, and `environment dev` as kubectl takes it."""
    metavars = {each.metavar: each.required for each in SHOWN[path].params}
    assert not metavars.get("KIND/NAME") or "NAME" in metavars


@pytest.mark.parametrize("path", SHOWN)
def test_help_opens_with_a_noun_or_a_verb(path: str) -> None:
    command = SHOWN[path]
    texts = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
    assert [found for text in texts for found in prose.in_docstring(0, text)] == []


def test_every_command_stands_in_a_group() -> None:
    """`tenantry --help` lists thirty commands: a flat list of them is not read."""
    shown = [line.strip("╭╮─ ") for line in called("--help", cwd=Path()).stdout.splitlines() if line.startswith("╭")]
    assert shown == ["Options", *GROUPS]
