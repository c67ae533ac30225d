"""A wrong `--database` is one line and the exit code of bad input, and makes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.cli import called

WRONG = [
    " ",
    "::",
    "nonsense",
    "mysql://x/y",
    "sqlite:///x.db",
    "postgresql+asyncpg://h/x",
    "postgresql://h:port/x",
    "postgresql",
]


@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_url_of_a_database_is_one_line(tmp_path: Path, url: str) -> None:
    served = called("engine", "--data", "data", "--listen", "127.0.0.1:0", "--database", url, cwd=tmp_path)
    assert (served.returncode, served.stderr.count("\n")) == (2, 1), served.stderr
    assert served.stderr.startswith("database: must be a URL that begins with postgresql://")
    assert not (tmp_path / "data").exists()
