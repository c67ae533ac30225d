"""Parts of this release and of the last one beside each other: they work together, or one refuses before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from tests.scenario.backups.old_release import ROOT, run, unpack_old, version_of
from tests.scenario.cli import serving

pytestmark = pytest.mark.slow
PLATFORM = """
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {name: home}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant-acme, labels: {tenantry.dev/tenant: acme}}
---
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: acme}
"""
MORE = """---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: dev, namespace: tenant-acme}
spec: {region: home}
"""
NEW = ROOT / "operator"
PACKAGE = ROOT / "examples/packages/notes-1.0.0"
COMMANDS = ("get environments", "tree", "operations", "plan src", "apply -f src/home.yaml", "reconcile tenant/acme", "token")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_old(tmp_path_factory.mktemp("old"))


class Skew(NamedTuple):
    """client: the code of the commands; folder: of a platform of the other release, which serves at that address."""

    client: Path
    served: Path
    folder: Path
    url: str

    def __call__(self, *arguments: str) -> CompletedProcess[str]:
        return run(self.client, *arguments, cwd=self.folder)


@pytest.fixture(params=["an old client", "a new client"])
def skew(old: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Skew]:
    client, served = (old, NEW) if request.param == "an old client" else (NEW, old)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/home.yaml").write_text(PLATFORM)
    started = "up", "src", "--state", "state", "--listen", "127.0.0.1:0"
    with serving(*started, cwd=tmp_path, PYTHONPATH=str(served)) as up:
        yield Skew(client, served, tmp_path, up.url)


def test_a_command_refuses_a_folder_of_the_other_release(skew: Skew) -> None:
    before = version_of(skew.folder / "state")
    for command in COMMANDS:
        refused = skew(*command.split(), "--state", "state")
        assert refused.returncode != 0, command
        assert "use the command of that release" in refused.stderr, command
    assert version_of(skew.folder / "state") == before


def test_packages_are_pushed_and_plans_are_made_over_rest(skew: Skew) -> None:
    token = run(skew.served, "token", "--state", "state", cwd=skew.folder).stdout.strip()
    access = "--server", skew.url, "--token", token
    assert skew("package", "build", str(PACKAGE), "-o", "notes.tapp").returncode == 0
    pushed = skew("package", "push", "notes.tapp", *access)
    assert (pushed.returncode, pushed.stdout.split()[:2]) == (0, ["notes", "1.0.0"]), pushed.stderr
    same = skew("plan", "src", *access)
    assert (same.returncode, same.stdout, same.stderr.strip()) == (0, "", "no changes")
    (skew.folder / "edited").mkdir()
    (skew.folder / "edited/home.yaml").write_text(PLATFORM + MORE)
    planned = skew("plan", "edited", *access)
    assert "+ Environment/tenant-acme/dev" in planned.stdout, planned.stderr
