"""A command and a running platform of different releases: each pair is refused by a sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.backups.old_release import ROOT, run, stored, unpack_old
from tests.scenario.cli import serving

pytestmark = pytest.mark.slow
NEW = ROOT / "operator"
REGION = "apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: home}\n"
COMMANDS = ("get regions", "describe region/home", "tree", "operations", "suspend region/home", "apply -f src", "token")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_old(tmp_path_factory.mktemp("old"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/home.yaml").write_text(REGION)
    return tmp_path


def refused(code: Path, place: Path) -> dict[str, tuple[int, str]]:
    """The exit code and the error of each command, which must not change what is stored."""
    before = stored(place / "state")
    done = {each: run(code, *each.split(), "--state", "state", cwd=place) for each in COMMANDS}
    assert stored(place / "state") == before
    return {each: (ended.returncode, ended.stderr.strip()) for each, ended in done.items()}


def test_commands_of_this_release_refuse_a_platform_of_the_one_before(old: Path, place: Path) -> None:
    with serving("up", "src", "--state", "state", "--listen", "127.0.0.1:0", cwd=place, PYTHONPATH=str(old)):
        told = refused(NEW, place)
    sentence = "the command is of release 0.2.0, but the running platform of release unknown; "
    assert {each: code for each, (code, _) in told.items()} == dict.fromkeys(COMMANDS, 1)
    assert [each for each, (_, error) in told.items() if not error.startswith(sentence)] == []


def test_a_platform_of_this_release_refuses_commands_of_the_one_before(old: Path, place: Path) -> None:
    with serving("up", "src", "--state", "state", "--listen", "127.0.0.1:0", cwd=place):
        told = refused(old, place)
    assert [each for each, (code, _) in told.items() if code == 0] == []
    assert [each for each, (_, error) in told.items() if "running platform of release 0.2.0" not in error] == []
