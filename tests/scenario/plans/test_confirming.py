"""A person on a terminal is asked before rows are destroyed; without a terminal nothing is asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.scenario.cli import called, tenantry
from tests.support.forked_commands import OPERATOR

LOSING = "-/+ tenant-europe/staging.music-store: "
QUESTION = "destroy rows. Go on?"


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A platform that runs version 1.1.0 of an app, and a source that wants 2.0.0 and allows it to drop a column."""
    folder = tmp_path_factory.mktemp("asked")
    source = Path(shutil.copytree(OPERATOR.parent / "examples" / "02-music-company", folder / "source"))
    assert tenantry("up", "source", "--once", cwd=folder).returncode == 0
    apps = source / "50-apps.yaml"
    apps.write_text(apps.read_text().replace('version: "1.1.0"', 'version: "2.0.0"\n  allowDropsFor: "2.0.0"'))
    (folder / "saved").write_text(called("plan", "source", "-o", "plan", cwd=folder).stdout)
    return folder


def installed(folder: Path) -> str:
    (app,) = [json.loads(called("get", "app", "tenant-europe/staging.music-store", "-o", "json", cwd=folder).stdout)]
    return str(app["status"]["installedVersion"])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["up source --once", "apply --plan saved"])
def test_nothing_is_done_when_the_answer_is_no(declared: Path, command: str) -> None:
    refused = called(*command.split(), cwd=declared, stdin="n\n", asked=True)
    assert refused.returncode == 1
    assert LOSING in refused.stderr
    assert QUESTION in refused.stderr
    assert refused.stderr.endswith("nothing was done\n")
    assert installed(declared) == "1.1.0"


@pytest.mark.slow
def test_apply_of_files_asks_too(declared: Path, tmp_path: Path) -> None:
    """The objects belong to no source here."""
    source = Path(shutil.copytree(OPERATOR.parent / "examples" / "02-music-company", tmp_path / "source"))
    (tmp_path / "empty").mkdir()
    tenantry("up", "empty", "--once", cwd=tmp_path)
    for _ in range(2):  # a tenant's namespace is made while `up` runs
        tenantry("apply", "-f", source, cwd=tmp_path)
        tenantry("up", "empty", "--once", cwd=tmp_path)
    refused = called("apply", "-f", declared / "source", cwd=tmp_path, stdin="n\n", asked=True)
    assert (QUESTION in refused.stderr, refused.returncode) == (True, 1), refused.stderr
    assert installed(tmp_path) == "1.1.0"


@pytest.mark.slow
def test_the_last_word_is_taken(declared: Path, tmp_path: Path) -> None:
    for name, asked, more in (("yes", True, ()), ("no-question", True, ("--yes",)), ("pipe", False, ())):
        folder = Path(shutil.copytree(declared, tmp_path / name))
        done = called("apply", "--plan", "saved", "-f", "source", *more, cwd=folder, stdin="y\n", asked=asked)
        assert done.returncode == 0, done.stderr
        assert (QUESTION in done.stderr) is (name == "yes")
        assert installed(folder) == "2.0.0"
