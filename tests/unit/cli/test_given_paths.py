"""Every path that a command is given is refused by its option, in one sentence of ours, if no such path can be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.cli import called
from tests.unit.cli.path_parameters import path_parameters

PARAMETERS = {each.name: each for each in path_parameters()}
FILE = "is a folder, not a file"
FOLDER = "is not a folder"
ABOVE = "{cwd}/file is not a folder"
TO_WRITE = "no file can be written there: {parent} is not a folder"
A_FILE = {"nowhere": "no such file", "file/x": "no such file", "empty": FILE, "full": FILE}
ANYTHING = dict.fromkeys(("nowhere", "nowhere/x", "file/x"), "no such file or directory")
A_FOLDER = {"nowhere": "no such folder", "file/x": "no such folder", "file": FOLDER}
A_FOLDER_OR_NONE_YET = {"file": FOLDER, "file/x": ABOVE}
A_NEW_FOLDER = A_FOLDER_OR_NONE_YET | {"full": "exists and is not empty; name a new folder"}
A_FILE_TO_WRITE = {"empty": FILE, "full": FILE, "nowhere/x": TO_WRITE, "file/x": TO_WRITE}
A_NEW_FILE = dict.fromkeys(("file", "empty", "full"), "exists; name a new file") | {"nowhere/x": TO_WRITE, "file/x": TO_WRITE}
ROWS = {
    "--kubeconfig": A_FILE,
    "init folder": A_NEW_FOLDER,
    "up --state": A_FOLDER_OR_NONE_YET,
    "doctor --bundle": A_NEW_FILE,
    "get --state": A_FOLDER_OR_NONE_YET,
    "validate path": ANYTHING,
    "apply --filename": ANYTHING,
    "apply --plan": A_FILE,
    "package build folder": A_FOLDER,
    "package build --output": A_FILE_TO_WRITE,
    "package inspect file": A_FILE,
    "package push file": A_FILE,
    "package push --signature": A_FILE,
    "backup --output": A_FILE_TO_WRITE,
    "restore --identity": A_FILE,
    "export --output": A_NEW_FOLDER,
    "import --output": A_NEW_FOLDER,
    "crds --out": A_FOLDER_OR_NONE_YET,
    "engine --data": A_FOLDER_OR_NONE_YET,
    "engine backup --data": A_FOLDER_OR_NONE_YET,
    "engine backup --output": A_FILE_TO_WRITE,
    "engine backup --scratch": A_FOLDER_OR_NONE_YET,
    "engine restore archive": A_FILE,
    "engine restore --data": A_FOLDER_OR_NONE_YET,
    "engine restore --scratch": A_FOLDER_OR_NONE_YET,
    "engine restore --identity": A_FILE,
    "engine release --data": A_FOLDER,
    "engine await --data": A_FOLDER_OR_NONE_YET,
    "pool --data": A_FOLDER_OR_NONE_YET,
    "pool archives --data": A_FOLDER_OR_NONE_YET,
    "pool backup --data": A_FOLDER_OR_NONE_YET,
    "pool send --data": A_FOLDER_OR_NONE_YET,
    "pool receive --data": A_FOLDER_OR_NONE_YET,
    "pool receive --scratch": A_FOLDER_OR_NONE_YET,
}
"""The paths that each parameter refuses, with the reason."""
FOUND_WRONG = {"check --state", "doctor --state"}
"""They report a wrong folder as a result, and look at the rest."""
GOOD = {"FILE": "file", "DIR": "empty"}
"""Paths of other parameters, by their metavars."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths").resolve()
    for each in ("empty", "full"):
        (folder / each).mkdir()
    for each in ("file", "full/file"):
        (folder / each).write_text("# Read me\n")
    return folder


def test_each_path_of_a_command_has_a_row() -> None:
    assert PARAMETERS.keys() == ROWS.keys() | FOUND_WRONG


@pytest.mark.parametrize("row", ROWS)
def test_a_path_that_cannot_be_meant_is_refused_by_its_option(row: str, folder: Path) -> None:
    option = PARAMETERS[row].parameter.opts[0]
    for given, reason in ROWS[row].items():
        done = called(*PARAMETERS[row].call(given, GOOD), cwd=folder)
        place = f"{option} {given}" if option.startswith("-") else given
        told = reason.format(cwd=folder, parent=Path(given).parent)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{place}: {told}\n")


def test_a_folder_is_no_backup_of_an_environment(folder: Path) -> None:
    """`restore` takes a file, or an id."""
    done = called("restore", "full", cwd=folder)
    assert (done.returncode, done.stderr) == (2, "full: is a folder, not a file\n")
