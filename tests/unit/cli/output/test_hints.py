"""Commands in messages reach the platform that the message is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import tenantry
from tenantry.cli.command_line import app
from tenantry.cli.output.hints import STATELESS, located, state_of


@pytest.mark.parametrize(
    ("text", "state", "shown"),
    [
        ("start `tenantry up SOURCE`", "there", "start `tenantry up SOURCE --state there`"),
        ("start `tenantry up SOURCE`", "", "start `tenantry up SOURCE`"),
        ("`tenantry check` lists them", "a/b", "`tenantry check --state a/b` lists them"),
        (
            "`tenantry package push FILE` or `tenantry tree`",
            "s",
            "`tenantry package push FILE --state s` or `tenantry tree --state s`",
        ),
        ("`tenantry package build DIR`", "s", "`tenantry package build DIR`"),
        ("`tenantry engine release DIR`", "s", "`tenantry engine release DIR`"),
        ("`tenantry --context c backups`", "s", "`tenantry --context c backups`"),
        ("`tenantry check --state t`", "s", "`tenantry check --state t`"),
        ("`spec.tenantry`", "s", "`spec.tenantry`"),
    ],
)
def test_a_hint_names_the_state_folder_where_its_command_takes_one(text: str, state: str, shown: str) -> None:
    assert located(text, state) == shown


@pytest.mark.parametrize(
    ("arguments", "state"),
    [(["get", "--state", "a"], "a"), (["get", "--state=a"], "a"), (["get", "env"], ""), (["get", "--state"], "")],
)
def test_the_state_folder_is_read_as_it_was_typed(arguments: list[str], state: str) -> None:
    assert state_of(arguments) == state


def commands(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for each, command in getattr(group, "commands", {}).items():
        yield from commands(command, f"{name} {each}".strip())
    if not hasattr(group, "commands"):
        yield name, group


def test_the_list_of_commands_without_a_state_folder_is_that_of_the_command_line() -> None:
    known = dict(commands(typer.main.get_command(app)))
    takes = {name for name, command in known.items() if any("--state" in each.opts for each in command.params)}
    without = {name for name in known if name in STATELESS or name.split()[0] in STATELESS}
    assert without == known.keys() - takes


def test_hints_name_commands_that_exist() -> None:
    known = {part for name, _ in commands(typer.main.get_command(app)) for part in (name, name.split()[0])}
    named = {
        found
        for path in Path(tenantry.__file__).parent.rglob("*.py")
        for found in re.findall(r"`tenantry ([a-z][a-z -]*)", path.read_text())
    }
    unknown = {text for text in named if text.split()[0] not in known and " ".join(text.split()[:2]) not in known}
    assert len(named) > 10
    assert unknown == set()
