"""Repositories of the shapes that platform teams have, with our kinds among those of others, as a folder and from Git."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.resource import API_VERSION, Document
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tests.scenario.repositories import Remote
from tests.support.source_folders import StoredPackages, tenant, write

ADMISSION = Admission()
KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [tenant.yaml]\n"
RELEASE = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: podinfo}\nspec: {interval: 1h}\n"
SYNC = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\nspec: {interval: 1h}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: podinfo}\n"
CHART = "apiVersion: v2\nname: apps\nversion: 1.0.0\n"
VALUES = "replicas: 2\nimage: {tag: 1.2.3}\n"
TEMPLATE = "{{- range .Values.apps }}\nkind: {{ .kind }}\n{{- end }}\n"
CI = "on: [push]\njobs: {}\n"
BUILT = "build it in CI and declare the result, or leave the file out with a line in .tenantryignore or in spec.ignore"

MONO_REPO = {
    ".github/workflows/test.yaml": CI,
    "apps/base/podinfo/release.yaml": RELEASE,
    "apps/base/podinfo/service.yaml": f"{SERVICE}---\n{tenant('podinfo')}",
    "clusters/production/apps.yaml": SYNC,
    "clusters/production/tenants.yaml": tenant("acme"),
    "renovate.yml": CI,
}
OVERLAYS = {
    "base/kustomization.yaml": KUSTOMIZATION,
    "base/tenant.yaml": tenant("acme"),
    "overlays/eu/kustomization.yaml": "resources: [../../base]\npatches: [{path: slug.yaml}]\n",
    "overlays/eu/slug.yaml": tenant("acme"),
    "rendered/eu.yaml": tenant("acme"),
}
HELM_BASED = {
    "apps/Chart.yaml": CHART,
    "apps/values.yaml": VALUES,
    "apps/values-production.yaml": VALUES,
    "apps/templates/application.yaml": TEMPLATE,
    "tenants/acme.yaml": tenant("acme"),
}

Read = Callable[..., Awaitable[Tree]]


@pytest.fixture(params=["folder", "git"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Read:
    """The tree of files. ignore: of a Source, or lines of the ignore file where a folder has no other."""

    async def of(files: dict[str, str], ignore: tuple[str, ...] = (), strict: bool = False) -> Tree:
        packages = PackageFiles(StoredPackages(), build)
        if request.param == "folder":
            own = {".tenantryignore": "\n".join((files.get(".tenantryignore", ""), *ignore))}
            write(tmp_path / "src", {**files, **own})
            return await Directory(tmp_path / "src", admit, packages, strict=strict).read()
        remote = Remote.at(tmp_path / "remote")
        remote.commit(files)
        settings = GitSettings(ignore=ignore, strict=strict)
        tree = await GitSource(parse_git_url(remote.url()), tmp_path / "cache", admit, packages, now, settings).read()
        return Tree(tree.documents, (*tree.problems, *tree.held), passed_over=tree.passed_over)

    return of


def admit(document: Document) -> Document:
    return ADMISSION.admit(document, None)


def now() -> datetime:
    return datetime.now(UTC)


def places(tree: Tree) -> list[str]:
    return [each.place.file for each in tree.documents]


def told(tree: Tree) -> list[str]:
    return [str(problem) for problem in tree.problems]


async def test_objects_of_other_groups_are_counted_and_passed_over(read: Read) -> None:
    tree = await read(MONO_REPO, ("renovate.yml",))
    assert told(tree) == []
    assert places(tree) == ["apps/base/podinfo/service.yaml", "clusters/production/tenants.yaml"]
    assert tree.passed_over == 3


async def test_suffixes_are_the_same_in_upper_and_lower_case(read: Read) -> None:
    names = ("a.yaml", "b.YAML", "c.yml", "d.Yml")
    tree = await read({name: tenant(name[0]) for name in names} | {"e.json": "{}", "f.yaml.bak": "x"})
    assert (told(tree), places(tree)) == ([], [*names])


async def test_a_strict_source_refuses_them(read: Read) -> None:
    tree = await read(MONO_REPO, ("renovate.yml",), strict=True)
    assert [line.partition(": kind: ")[0] for line in told(tree)] == [
        "apps/base/podinfo/release.yaml:2",
        "apps/base/podinfo/service.yaml:2",
        "clusters/production/apps.yaml:2",
    ]


async def test_kustomize_is_to_be_built_or_left_out(read: Read) -> None:
    tree = await read(OVERLAYS, ("overlays/eu/slug.yaml", "rendered/"))
    assert told(tree) == [
        f"base/kustomization.yaml:1: is the input of Kustomize, which Tenantry does not run: {BUILT}",
        f"overlays/eu/kustomization.yaml:1: is the input of Kustomize, which Tenantry does not run: {BUILT}",
    ]


async def test_only_what_kustomize_built_is_read(read: Read) -> None:
    tree = await read({**OVERLAYS, ".tenantryignore": "# the input\n/base/\n/overlays/\n"})
    assert (told(tree), places(tree), tree.passed_over) == ([], ["rendered/eu.yaml"], 0)


async def test_a_chart_is_to_be_rendered_or_left_out(read: Read) -> None:
    tree = await read(HELM_BASED, ("values*.yaml", "templates/"))
    assert told(tree) == [f"apps/Chart.yaml:1: is a Helm chart, which Tenantry does not render: {BUILT}"]


async def test_what_stands_beside_a_chart_is_read(read: Read) -> None:
    tree = await read({**HELM_BASED, ".tenantryignore": "apps/\n"})
    assert (told(tree), places(tree)) == ([], ["tenants/acme.yaml"])


@pytest.mark.parametrize(
    ("document", "told_of"),
    [
        (
            "apiVersion: tenantry.dev/v1alpha1\nkind: Tennant\nmetadata: {name: a}\n",
            "unknown kind 'Tennant'; did you mean 'Tenant'?",
        ),
        ("apiVersion: tenantry.dev/v1\nkind: Tenant\nmetadata: {name: a}\n", "not of 'tenantry.dev/v1'"),
        ("apiVersion: tenantri.dev/v1alpha1\nkind: Tenant\nmetadata: {name: a}\n", "not of 'tenantri.dev/v1alpha1'"),
        ("apiVersion: v1\nkind: Tenant\nmetadata: {name: a}\n", "not of 'v1'"),
        (VALUES, "Required value"),
        ("apiVersion: a/b/v1\nkind: Tenant\nmetadata: {name: a}\n", "not of 'a/b/v1'"),
    ],
    ids=["an unknown kind of ours", "an unknown version", "a misspelt group", "no group", "no object", "no version"],
)
async def test_what_may_have_been_meant_for_us_stays_a_problem(read: Read, document: str, told_of: str) -> None:
    tree = await read({"a.yaml": document})
    assert any(told_of in line for line in told(tree)), told(tree)
    assert tree.passed_over == 0


async def test_a_bad_pattern_is_named_and_nothing_is_read(read: Read) -> None:
    tree = await read({"a.yaml": tenant("a"), ".tenantryignore": "ok\n[a\n"})
    assert told(tree) == [".tenantryignore:2: a [ is not closed"]
    assert places(tree) == []


async def test_a_bad_pattern_of_a_source_is_named(read: Read, request: pytest.FixtureRequest) -> None:
    tree = await read({"a.yaml": tenant("a")}, ("ok", "[a"))
    ours = (
        ".tenantryignore: spec.ignore[1]: a [ is not closed"
        if "git" in request.node.name
        else ".tenantryignore:3: a [ is not closed"
    )
    assert (told(tree), places(tree)) == ([ours], [])


async def test_a_list_of_objects_is_read_as_its_items(read: Read) -> None:
    one, other = (json.dumps({"apiVersion": API_VERSION, "kind": "Tenant", "metadata": {"name": name}}) for name in "ab")
    tree = await read({"a.yaml": f'{{"apiVersion": "v1", "kind": "List", "items": [{one}]}}', "b.yaml": f"[\n{other}\n]"})
    assert told(tree) == []
    assert [(each.ref.name, str(each.place)) for each in tree.documents] == [("a", "a.yaml:1"), ("b", "b.yaml:2")]


async def test_a_link_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "linked.yaml").symlink_to("/nowhere")
    write(tmp_path, {"a.yaml": tenant("a"), ".tenantryignore": "linked.yaml"})
    tree = await Directory(tmp_path, admit, PackageFiles(StoredPackages(), build)).read()
    assert (told(tree), places(tree)) == ([], ["a.yaml"])
