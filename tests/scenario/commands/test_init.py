"""`tenantry init` writes a platform that is valid, and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.cli import called, tenantry


@pytest.mark.slow
def test_the_first_platform_is_valid_and_becomes_ready(tmp_path: Path) -> None:
    made = called("init", "first", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "  tenantry up first"
    checked = called("validate", "first", cwd=tmp_path)
    assert (checked.stdout, checked.stderr, checked.returncode) == ("first: 6 documents are valid\n", "", 0)
    ran = tenantry("up", "first", "--once", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "App/tenant-first/dev.notes" in ran.stdout


def test_the_folder_where_one_is_will_do_when_it_is_empty(tmp_path: Path) -> None:
    assert called("init", cwd=tmp_path).returncode == 0
    assert (tmp_path / "platform.yaml").exists()


@pytest.mark.parametrize(
    ("name", "reason"), [("full", "exists and is not empty; name a new folder"), ("file", "is not a folder")]
)
def test_what_is_there_is_not_overwritten(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    refused = called("init", name, cwd=tmp_path)
    assert (refused.stderr, refused.returncode) == (f"{name}: {reason}\n", 2)
    assert sorted(tmp_path.rglob("*")) == before
