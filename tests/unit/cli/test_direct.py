"""Calls that skip the framework of the command line are those that it takes in the same way."""

from __future__ import annotations

import pytest
import typer

from tenantry.cli.command_line import app
from tenantry.cli.direct import FLAGS, OPTIONS, WORDS, Asked, parsed

ROOT = typer.main.get_command(app)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["tree"], Asked("tree")),
        (["tree", "acme", "--state", "here"], Asked("tree", ("acme",), {"state": "here"})),
        (["get", "environments"], Asked("get", ("environments",))),
        (["get", "-n", "tenant-acme", "apps", "dev.crm"], Asked("get", ("apps", "dev.crm"), {"namespace": "tenant-acme"})),
        (["get", "apps", "-o", "json", "-A"], Asked("get", ("apps",), {"output": "json", "everywhere": "-A"})),
        (["get", "apps", "--selector=team=crm"], Asked("get", ("apps",), {"labels": "team=crm"})),
        (["engine", "--data", "d", "--log-format=json"], Asked("engine", (), {"data": "d", "log_format": "json"})),
        (["up", "platform"], Asked("up", ("platform",))),
        (
            ["up", "platform", "--yes", "-q", "--listen", "[::]:80"],
            Asked("up", ("platform",), {"yes": "--yes", "quiet": "-q", "listen": "[::]:80"}),
        ),
    ],
)
def test_a_plain_call_is_read(arguments: list[str], asked: Asked) -> None:
    assert parsed(arguments) == asked


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["get"],
        ["get", "--help"],
        ["get", "apps", "a", "b"],
        ["get", "apps", "-w"],
        ["get", "apps", "--watch"],
        ["get", "apps", "-njson"],
        ["get", "apps", "-n"],
        ["get", "apps", "--name", "x"],
        ["get", "apps", "--", "x"],
        ["get", ""],
        ["get", "apps", "--state="],
        ["tree", "a", "b"],
        ["tree", "-n", "a"],
        ["--context", "x", "get", "apps"],
        ["delete", "app/x"],
        ["engine", "--help"],
        ["up"],
        ["up", "platform", "--help"],
        ["up", "platform", "other"],
        ["up", "platform", "-qy"],
        ["engine", "backup", "--data", "d", "-o", "f"],
        ["engine", "--data", "d", "backup", "-o", "f"],
    ],
)
def test_any_other_call_goes_the_ordinary_way(arguments: list[str]) -> None:
    assert parsed(arguments) is None


@pytest.mark.parametrize("command", OPTIONS)
def test_every_option_and_word_is_one_of_the_command(command: str) -> None:
    parameters = ROOT.commands[command].params  # type: ignore[attr-defined]
    options = {name for each in parameters if each.param_type_name == "option" for name in each.opts}
    words = [each for each in parameters if each.param_type_name == "argument"]
    assert {*OPTIONS[command], *FLAGS[command]} <= options
    assert WORDS[command] == (sum(each.required for each in words), len(words))
