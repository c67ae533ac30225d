"""Users of the last release can go on with this one: their declarations, requests and commands are taken."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from tests.release import compatibility
from tests.scenario.backups.old_release import ROOT, run, unpack_old, variables
from tests.scenario.cli import serving

COMMANDS = """
import json, sys, typer
try:
    from tenantry.cli.command_line import app
except ModuleNotFoundError:
    from tenantry.cli.main import app

def below(command, path=()):
    yield " ".join(path), command
    for name, each in getattr(command, "commands", {}).items():
        yield from below(each, (*path, name))

def taken(command):
    names = lambda each: [each.name] if each.param_type_name == "argument" else each.opts
    return {word: each.required for each in command.params for word in names(each)}

json.dump({path: taken(each) for path, each in below(typer.main.get_command(app)) if not each.hidden}, sys.stdout)
"""
ACCEPTED: Mapping[str, str] = {
    r".*: pattern unset became \^\[\^\\x00\]\*\$": "a NUL in a text was taken, and failed later: PostgreSQL cannot store it",
    r".*: pattern (.*)\\z became \1\$": "the same pattern, as JSON Schema writes it",
    r"(POST /api/v1/users|PUT /api/v1/users/{id}) body\.type: only some values are left": "others were refused before, too",
}
"""Differences that were made on purpose, as regular expressions, with the reason."""


class Release(NamedTuple):
    """The doors of a release."""

    definitions: Mapping[str, Any]
    rest: Mapping[str, Any]
    commands: Mapping[str, Any]


def offered(code: Path, folder: Path) -> Release:
    """Ask the release whose code is there."""
    (folder / "src").mkdir(parents=True)
    (folder / "src/home.yaml").write_text("apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: home}\n")
    assert run(code, "crds", "--out", "crds", cwd=folder).returncode == 0
    definitions = [yaml.safe_load(path.read_text()) for path in (folder / "crds").glob("*.yaml")]
    with serving("up", "src", "--state", "state", "--listen", "127.0.0.1:0", cwd=folder, PYTHONPATH=str(code)) as up:
        rest = httpx.get(f"{up.url}/openapi.json").raise_for_status().json()
    asked = [sys.executable, "-c", COMMANDS]
    commands = subprocess.run(asked, cwd=folder, env=variables(code), capture_output=True, text=True, check=True).stdout
    return Release({each["metadata"]["name"]: each for each in definitions}, rest, json.loads(commands))


@pytest.mark.slow
def test_nothing_of_the_last_release_is_removed_narrowed_or_newly_required(tmp_path: Path) -> None:
    old, new = offered(unpack_old(tmp_path / "code"), tmp_path / "old"), offered(ROOT / "operator", tmp_path / "new")
    assert (len(old.definitions), len(old.rest["paths"]) > 20, len(old.commands) > 30) == (10, True, True)
    found = [
        *compatibility.of_definitions(old.definitions, new.definitions),
        *compatibility.of_rest(old.rest, new.rest),
        *compatibility.of_commands(old.commands, new.commands),
    ]
    known = {each: [accepted for accepted in ACCEPTED if re.fullmatch(accepted, each)] for each in found}
    assert [each for each, accepted in known.items() if not accepted] == [], "it breaks users: add it, or say why in ACCEPTED"
    assert {accepted for each in known.values() for accepted in each} == {*ACCEPTED}


NEEDED = {"in": "query", "name": "q", "required": True, "schema": {"type": "string"}}
TEXT, OBJECT = {"type": "string"}, {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (OBJECT, OBJECT, []),
        (OBJECT, OBJECT | {"properties": OBJECT["properties"] | {"c": TEXT}}, []),  # type: ignore[operator]
        (OBJECT, OBJECT | {"required": ["a"]}, ["x.a: is newly required"]),
        (OBJECT | {"required": ["a"]}, OBJECT, []),
        (OBJECT, {"type": "object", "properties": {"a": TEXT}}, ["x.b: is gone"]),
        (OBJECT, OBJECT | {"properties": {"a": TEXT, "b": TEXT}}, ["x.b: type integer became string"]),
        (TEXT | {"enum": ["A", "B"]}, TEXT | {"enum": ["B", "C"]}, ["x: the value A is gone"]),
        (TEXT | {"enum": ["A"]}, TEXT, []),
        (TEXT, TEXT | {"enum": ["A"]}, ["x: only some values are left"]),
        (TEXT | {"maxLength": 9}, TEXT | {"maxLength": 8}, ["x: maxLength 9 became 8"]),
        (TEXT | {"maxLength": 9}, TEXT | {"maxLength": 10}, []),
        (TEXT, TEXT | {"minLength": 1}, ["x: minLength unset became 1"]),
        (TEXT | {"pattern": "a"}, TEXT, []),
        (TEXT | {"pattern": "a"}, TEXT | {"pattern": "b"}, ["x: pattern a became b"]),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": {"type": "integer"}}, ["x[]: type string became integer"]),
    ],
)
def test_a_schema_that_refuses_more_is_found(old: Any, new: Any, found: list[str]) -> None:
    assert list(compatibility.narrowed(old, new, "x")) == found


def test_an_answer_may_be_bounded_and_not_lose_a_field() -> None:
    less = {"type": "object", "properties": {"a": TEXT | {"maxLength": 3}}, "required": ["a"]}
    assert list(compatibility.lessened(OBJECT, less, "x")) == ["x.b: is gone"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, ["GET /a: is gone"]),
        ({"/a": {"get": {"responses": {}}}}, ["GET /a: parameter q is gone", "GET /a 200: is gone"]),
        ({"/a": {"get": {"parameters": [NEEDED], "responses": {"200": {}}}}}, ["GET /a: parameter q is newly required"]),
    ],
)
def test_a_request_that_no_longer_holds_is_found(change: Any, found: list[str]) -> None:
    given = {"in": "query", "name": "q", "schema": TEXT}
    old = {"paths": {"/a": {"get": {"parameters": [given], "responses": {"200": {}}}}}}
    assert list(compatibility.of_rest(old, {"paths": change})) == found


def test_a_command_that_no_longer_holds_is_found() -> None:
    old = {"get": {"kind": True, "-o": False}, "tree": {}}
    new = {"get": {"kind": True, "--by": True}}
    assert list(compatibility.of_commands(old, new)) == [
        "tenantry get: -o is gone",
        "tenantry get: --by is newly required",
        "tenantry tree: is gone",
    ]
