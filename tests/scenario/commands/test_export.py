"""An export makes the same thing elsewhere: a tenant, or all that runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.scenario.cli import called

EXAMPLES = Path(__file__).parents[3] / "examples"


def documents_in(folder: Path) -> list[dict[str, Any]]:
    found = (yaml.safe_load_all(file.read_text()) for file in sorted(folder.rglob("*.yaml")))
    return [each for documents in found for each in documents if each]


def applied(source: Path, state: Path, cwd: Path) -> None:
    """Makes a platform of a source, as a plan and what it says."""
    planned = called("plan", source, "-o", "plan", "--state", state, cwd=cwd)
    assert planned.returncode == 1, planned.stderr
    (cwd / "change.plan").write_text(planned.stdout)
    done = called("apply", "--plan", "change.plan", "--state", state, cwd=cwd)
    assert [line for line in done.stderr.splitlines() if ": Suspended: " not in line] == []
    assert done.returncode == bool(done.stderr)


def all_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def source(namespace: str, **spec: Any) -> dict[str, Any]:
    """Suspended: no remote is asked."""
    metadata = {"name": "own", "namespace": namespace}
    plain = {"url": "https://git.example.com/acme/platform.git", "suspend": True}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Source", "metadata": metadata, "spec": {**plain, **spec}}


SOURCES = [
    source("tenantry-system", branch="main", path="deploy", prune={"objects": 3}, verify={"keys": "ann ssh-ed25519 AAAA\n"}),
    source(
        "tenant-orchid",
        tag="v1",
        interval="5m",
        credentials={"secretRef": {"name": "git", "key": "token"}, "knownHosts": "git.example.com ssh-ed25519 AAAA\n"},
        webhook={"secretRef": {"name": "hook"}},
        deletionPolicy="Prune",
    ),
]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a platform of examples/03-people, with Sources, in its folder `first`."""
    cwd = tmp_path_factory.mktemp("export")
    declared = Path(shutil.copytree(EXAMPLES / "03-people", cwd / "declared"))
    (declared / "sources.yaml").write_text(yaml.safe_dump_all(SOURCES))
    applied(declared, cwd / "first", cwd)
    return cwd


@pytest.mark.slow
def test_a_tenant_is_made_again_elsewhere_and_then_nothing_is_left_to_do(people: Path) -> None:
    exported = called("export", "orchid", "-o", "orchid", "--state", "first", cwd=people)
    assert exported.returncode == 0, exported.stderr
    needed = {line.split()[3].rstrip(",") for line in exported.stderr.splitlines()}
    assert needed == {
        "tenant-orchid/identity-ada",
        "tenant-orchid/identity-ben",
        "tenant-orchid/git",
        "tenant-orchid/hook",
        "tenant-orchid/idp-orchid-id",
        "tenantry-system/user-olga",
        "tenantry-system/user-viktor",
    }
    assert not any(each["kind"] == "Secret" for each in documents_in(people / "orchid"))
    assert "example-only" not in "".join(file.read_text() for file in (people / "orchid").rglob("*.yaml"))
    whole = Path(shutil.copytree(people / "orchid", people / "whole"))
    assert (people / "orchid" / "80-sources.yaml").exists()
    left = [each for each in documents_in(EXAMPLES / "03-people") if each["kind"] in ("Secret", "Region")]
    (whole / "needs.yaml").write_text(yaml.safe_dump_all(left))
    applied(whole, people / "second", people)
    same = called("plan", "whole", "--state", "second", cwd=people)
    assert (same.stdout, same.stderr, same.returncode) == ("", "no changes\n", 0)
    again = called("export", "orchid", "-o", "again", "--state", "second", cwd=people)
    assert again.returncode == 0, again.stderr
    assert all_in(people / "again") == all_in(people / "orchid")


def test_an_export_reads_like_the_declaration_that_it_came_from(people: Path) -> None:
    printed = called("export", "orchid", "--state", "first", cwd=people)
    assert printed.returncode == 0, printed.stderr
    given = {(each["kind"], each["metadata"]["name"]): each for each in documents_in(people / "declared")}
    given["Source", "own"] = SOURCES[1]
    exported = list(yaml.safe_load_all(printed.stdout))
    assert {"Tenant", "Environment", "App", "User", "Source"} <= {each["kind"] for each in exported}
    for each in exported:
        source = given[each["kind"], each["metadata"]["name"]]
        assert each["metadata"] == source["metadata"]
        if each["kind"] in ("Tenant", "Environment", "App", "User", "Source"):
            assert each["spec"] == source["spec"]
        assert "status" not in each


@pytest.mark.slow
def test_all_that_runs_becomes_a_folder_for_git(people: Path) -> None:
    written = called("import", "--cluster", "-o", "git/platform", "--state", "first", cwd=people)
    assert written.returncode == 0, written.stderr
    assert sorted(all_in(people / "git" / "platform")) == [
        "00-regions.yaml",
        "20-users.yaml",
        "80-sources.yaml",
        *(f"tenants/orchid/{name}.yaml" for name in ("05-namespace", "10-tenant", "20-users", "30-environments")),
        *(f"tenants/orchid/{name}.yaml" for name in ("40-packages", "50-apps", "60-identities", "70-identity-providers")),
        "tenants/orchid/80-sources.yaml",
        "tenants/orchid/packages/notes-1.0.0.tapp",
    ]
    assert [each["metadata"]["name"] for each in yaml.safe_load_all((people / "git/platform/20-users.yaml").read_text())] == [
        "root"
    ]
    for namespace, file in (("tenantry-system", "80-sources"), ("tenant-orchid", "tenants/orchid/80-sources")):
        (written_source,) = yaml.safe_load_all((people / f"git/platform/{file}.yaml").read_text())
        assert written_source == next(each for each in SOURCES if each["metadata"]["namespace"] == namespace)
    assert called("validate", "git/platform", cwd=people).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("export", "nobody", "--state", "first"), 1, "there is no Tenant nobody"),
        (("export", "orchid", "-o", "full", "--state", "first"), 2, "full: exists and is not empty"),
        (("import", "-o", "new", "--state", "first"), 2, "--cluster"),
    ],
)
def test_what_cannot_be_exported_is_told(people: Path, arguments: tuple[str, ...], code: int, told: str) -> None:
    (people / "full").mkdir(exist_ok=True)
    (people / "full" / "mine.txt").write_text("mine")
    ended = called(*arguments, cwd=people)
    assert (ended.returncode, told in ended.stderr) == (code, True), ended.stderr
    assert all_in(people / "full") == {"mine.txt": b"mine"}
