"""The README's tour, run as a reader would: its code blocks, in order, in one shell, beside a real `tenantry up`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
START_S, TOUR_S = 90, 240
ADA = {"NAME": "Ada Lovelace", "EMAIL": "ada@example.com"}


PICTURE = (ROOT / "README.md").read_text().split("```text\n")[1].split("```")[0]


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A copy of the examples with `up` on them: its folder and its URL."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    command = [str(BIN / "tenantry"), "up", "examples/02-music-company", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        try:
            lines = iter(up.stdout.readline, "")
            url = next(found[0] for line in lines if (found := re.findall(r"^  (http://[0-9.:]+)$", line)))
            yield tmp_path, url
        finally:
            up.send_signal(signal.SIGTERM)
            assert up.wait(START_S) == 0


@pytest.mark.slow
def test_the_tour_works_as_it_is_written(running: tuple[Path, str]) -> None:
    folder, url = running
    seen = subprocess.run([BIN / "tenantry", "tree", "europe"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert seen.replace(url, "http://127.0.0.1:8080") in PICTURE, "the picture shows what a reader sees"
    script = "set -euo pipefail\n" + "\n".join(blocks()).replace("http://127.0.0.1:8080", url)
    # A plan that finds no change exits with 0; every step of the tour does.
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=TOUR_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    promoted = told.index("app/production.music-store is Ready")
    assert "└── app music-store 1.1.0  Ready" in told[promoted:], "the edit of a file arrives"
    assert re.search(r"UPDATE_APP|UPGRADE_APP|INSTALL_APP", told[promoted:])
    assert "INFO environment trial: deploy" in told, "the log of the Operation tells its steps"
    assert '"result":"SUCCESS"' in told.replace(" ", "")
    refusal = told.index("drops column Customer.Fax (losing, ")
    assert "adds table Promotion (safe)" in told, "the refusal lists every step"
    assert told.count("+55 (12) 3923-5566") == 2, "the column is there before the refusal and after it"
    assert told.rindex("+55 (12) 3923-5566") > refusal
    assert told.count("luisg@embraer.com.br") == told.count("leonekohler@surfeu.de") == 3, "the rows outlive their column"
    assert '"version":"2.0.0"' in told.replace(" ", "")
    assert "DELETE_ENVIRONMENT" in told


@pytest.mark.slow
def test_the_tour_from_git_works_as_it_is_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    port = free_port()
    written = re.findall(r"^```sh gitops\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    script = "set -euo pipefail\ntrap 'kill %1 2> /dev/null || true' ERR\n" + "\n".join(written).replace("8081", str(port))
    people = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in ADA.items()}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "NO_COLOR": "1", "COLUMNS": "200"}
    environment = os.environ | people | alone | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    with (tmp_path / "told").open("w+") as out:
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=out, stderr=out, timeout=2 * TOUR_S, check=False
        )
    told = (tmp_path / "told").read_text()
    assert done.returncode == 0, told
    assert re.search(
        r"Environment/tenant-orchid/office +default +20-environment.yaml:2 .*Ada Lovelace <ada@example.com>", told
    ), told
    assert "tenant-orchid/archive" in told[: told.index("CORRECT_DRIFT")], "the plan names what it would make"
    assert "admin: Update environment tenant-orchid/archive" in told
    assert "+  displayName: Back list  # what is no longer sold" in told
    # An answer has no end of a line: the platform's own output may follow it.
    answers = [json.JSONDecoder().raw_decode(line)[0] for line in told.splitlines() if line.startswith("{")]
    assert [answer["name"] for answer in answers] == ["Back list", "Archive"]
    assert "DELETE_ENVIRONMENT" in told
