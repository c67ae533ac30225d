"""A directory is read as a whole: what is sound is declared, what is not is reported with file and line."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.sources import directory as reading
from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Document
from tenantry.model.tree import Tree
from tests.support.source_folders import PACKAGE, TENANT, StoredPackages, tenant, write

ADMISSION = Admission()


def build(folder: Path, target: Path) -> None:
    target.write_bytes(b"".join(path.read_bytes() for path in sorted(folder.iterdir())))


def admit(document: Document) -> Document:
    return ADMISSION.admit(document, None)


def directory(root: Path, packages: StoredPackages | None = None) -> Directory:
    return Directory(root, admit, PackageFiles(packages or StoredPackages(), build))


def names(tree: Tree) -> list[str]:
    return [each.ref.name for each in tree.documents]


def told(tree: Tree) -> list[str]:
    return [str(problem) for problem in tree.problems]


async def test_subfolders_and_both_suffixes_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path, {"b/c.yml": tenant("c"), "a.yaml": tenant("a") + "---\n" + tenant("b"), "readme.md": "no", "x.json": "{"})

    tree = await directory(tmp_path).read()

    assert [str(each.place) for each in tree.documents] == ["a.yaml:1", "a.yaml:5", "b/c.yml:1"]
    assert names(tree) == ["a", "b", "c"]


async def test_hidden_folders_and_package_sources_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, {".git/a.yaml": "[", "apps/crm/app.yaml": "id: crm", "apps/crm/more/x.yaml": "[", "a.yaml": tenant("a")})

    assert await directory(tmp_path).read() == await directory(tmp_path / "a.yaml").read()


async def test_documents_carry_their_defaults_and_the_digest_of_their_file(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": tenant("a")})

    (declared,) = (await directory(tmp_path).read()).documents

    assert declared.document["spec"] == {"deletionProtection": False, "suspend": False}
    assert declared.digest == hashlib.sha256(tenant("a").encode()).hexdigest()


async def test_a_list_counts_for_its_items(tmp_path: Path) -> None:
    item = "- {apiVersion: tenantry.dev/v1alpha1, kind: Tenant, metadata: {name: NAME}, spec: {slug: SLUG}}\n"
    items = item.replace("NAME", "a").replace("SLUG", "a") + item.replace("NAME", "b").replace("SLUG", "B")
    write(tmp_path, {"a.yaml": "apiVersion: v1\nkind: List\nitems:\n" + items})

    assert told(await directory(tmp_path).read())[0].startswith('a.yaml:5: spec.slug: Invalid value: "B"')


async def test_a_broken_file_is_told_and_the_others_are_declared(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": tenant("a"), "b.yaml": tenant("b") + "spec: {slug: [}\n", "c.yaml": tenant("c")})

    tree = await directory(tmp_path).read()

    assert names(tree) == ["a", "c"]
    assert [(p.file, p.line) for p in tree.problems] == [("b.yaml", 4)]


async def test_a_refused_document_breaks_its_file_and_names_the_line_of_the_field(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": tenant("a") + "---\n" + tenant("b") + "spec:\n  displayName: B\n  slug: B\n"})

    tree = await directory(tmp_path).read()

    assert tree.documents == ()
    (problem,) = told(tree)
    assert problem.startswith('a.yaml:10: spec.slug: Invalid value: "B": must be lower-case letters, digits')


@pytest.mark.parametrize("text", ["- a\n", "just text\n", "12\n"])
async def test_a_document_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"a.yaml": text})

    assert told(await directory(tmp_path).read()) == ["a.yaml:1: must be a mapping with apiVersion, kind and metadata"]


async def test_an_object_declared_twice_is_refused_where_it_stands_again(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": tenant("a"), "b.yaml": tenant("b") + "---\n" + tenant("a")})

    tree = await directory(tmp_path).read()

    assert names(tree) == ["a"]
    assert told(tree) == ["b.yaml:5: metadata.name: Tenant/a is already declared at a.yaml:1"]


async def test_links_are_followed_inside_the_tree_alone(tmp_path: Path) -> None:
    write(tmp_path, {"out/secret.yaml": tenant("x"), "in/.data/a.yaml": tenant("a")})
    inside = tmp_path / "in"
    (inside / "a.yaml").symlink_to(".data/a.yaml")
    (inside / "b.yaml").symlink_to(tmp_path / "out" / "secret.yaml")
    (inside / "c").symlink_to(tmp_path / "out")
    (inside / "d.yaml").symlink_to("nowhere")
    (inside / "loop").symlink_to(".")
    os.mkfifo(inside / "e.yaml")

    tree = await directory(inside).read()

    assert names(tree) == ["a"]
    assert told(tree) == [
        "b.yaml: is a link that leads out of the directory",
        "c: is a link that leads out of the directory",
        "d.yaml: is a link to nothing",
        "e.yaml: is not a regular file",
    ]


async def test_a_directory_that_is_gone_is_no_empty_directory(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    source = directory(root)
    root.rmdir()

    with pytest.raises(FileNotFoundError):
        await source.read()


async def test_a_tree_beyond_the_limits_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.yaml": tenant("a"), "b.yaml": tenant("b"), "c.yaml": tenant("c")})

    monkeypatch.setattr(reading, "MOST_FILES", 2)
    assert told(await directory(tmp_path).read()) == [".: holds more than 2 YAML files"]
    monkeypatch.setattr(reading, "LARGEST_TREE", len(tenant("a")))
    assert told(await directory(tmp_path).read())[0].startswith("b.yaml: with it, the files hold more")


async def test_a_field_is_located_in_the_file_as_it_is_now(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": tenant("a") + "spec:\n  slug: a\n"})
    tree = await directory(tmp_path).read()
    place = tree.documents[0].place

    assert tree.locate(place, "spec.slug") == 5
    (tmp_path / "a.yaml").unlink()
    assert tree.locate(place, "spec.slug") == 1


@pytest.mark.parametrize("path", ["crm", "crm.tapp"])
async def test_a_package_named_by_path_is_stored_and_its_sha256_filled_in(tmp_path: Path, path: str) -> None:
    write(tmp_path, {"x/p.yaml": PACKAGE.replace("PATH", path), "x/crm/app.yaml": "id: crm", "x/crm.tapp": "id: crm"})
    packages = StoredPackages()

    (declared,) = (await directory(tmp_path, packages).read()).documents

    assert declared.document["spec"]["sha256"] == hashlib.sha256(b"id: crm").hexdigest()
    assert packages.put_for == ["acme"]


async def test_a_packages_tenant_is_the_one_that_declares_its_namespace(tmp_path: Path) -> None:
    owner = tenant("globex") + "spec: {namespace: tenant-acme}\n"
    shared = PACKAGE.replace("PATH", "crm.tapp").replace("tenant-acme", "tenantry-system") + "  shared: true\n"
    write(tmp_path, {"a.yaml": owner, "p.yaml": PACKAGE.replace("PATH", "crm.tapp"), "s.yaml": shared, "crm.tapp": "x"})
    packages = StoredPackages()

    assert told(await directory(tmp_path, packages).read()) == []
    assert packages.put_for == ["globex", ""]


async def test_an_unchanged_package_is_not_built_again_unless_its_bytes_are_gone(tmp_path: Path) -> None:
    write(tmp_path, {"p.yaml": PACKAGE.replace("PATH", "crm"), "crm/app.yaml": "id: crm"})
    packages = StoredPackages()
    source = directory(tmp_path, packages)
    sha256 = (await source.read()).documents[0].document["spec"]["sha256"]
    await source.read()
    assert packages.put_for == ["acme"]

    await packages.remove("acme", sha256)
    await source.read()
    assert packages.put_for == ["acme", "acme"]

    write(tmp_path, {"crm/more.txt": "more"})
    assert (await source.read()).documents[0].document["spec"]["sha256"] != sha256


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../out.tapp", "leads out of the directory"),
        ("link.tapp", "leads out of the directory"),
        ("/etc/passwd", "must be relative"),
        ("empty", "holds no app.yaml"),
        ("nowhere", "does not exist"),
        ("broken.tapp", "app.yaml: is missing"),
    ],
)
async def test_a_path_that_names_no_package_of_the_tree_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    root = tmp_path / "root"
    write(root, {"p.yaml": PACKAGE.replace("PATH", path), "empty/x": "", "broken.tapp": "broken", "../out.tapp": "x"})
    (root / "link.tapp").symlink_to(tmp_path / "out.tapp")

    (problem,) = (await directory(root).read()).problems

    assert (problem.line, problem.problem.field) == (7, "spec.source.path")
    assert reason in problem.problem.reason


@pytest.mark.parametrize(("field", "real"), [("app: crm", "app: shop"), ("version: 1.0.0", "version: 2.0.0")])
async def test_a_package_that_says_otherwise_is_refused(tmp_path: Path, field: str, real: str) -> None:
    write(tmp_path, {"p.yaml": PACKAGE.replace("PATH", "crm.tapp").replace(field, real), "crm.tapp": "x"})

    (problem,) = (await directory(tmp_path).read()).problems

    assert problem.problem.field == f"spec.{field.partition(':')[0]}"


@pytest.mark.slow
async def test_reading_again_after_an_edit_finds_the_edit(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": tenant("a"), "b.yaml": tenant("b")})
    source = directory(tmp_path)
    await source.read()
    write(tmp_path, {"a.yaml": tenant("c")})
    shutil.move(tmp_path / "b.yaml", tmp_path / "d.yaml")

    assert [(each.ref.name, each.place.file) for each in (await source.read()).documents] == [("c", "a.yaml"), ("b", "d.yaml")]


async def test_files_without_a_document_are_named(tmp_path: Path) -> None:
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    write(
        tmp_path,
        {"a.yaml": TENANT.replace("NAME", "a"), "b.yaml": "", "c/d.yaml": "# moved\n---\n", "e.yaml": other, "f.yaml": "["},
    )

    found = await Directory(tmp_path, admit, PackageFiles(StoredPackages(), build)).read()

    assert found.empty == {"b.yaml", "c/d.yaml"}


def test_nothing_of_a_document_is_shared_with_its_defaults() -> None:
    document: dict[str, Any] = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Region", "metadata": {"name": "a"}}
    first: Any = admit(document)
    first["spec"]["engine"]["external"] = True

    assert admit(document)["spec"]["engine"]["external"] is False


SLIPS = {
    "empty": lambda file: file.write_text(""),
    "half written": lambda file: file.write_text("apiVersion: tenantry.dev/v1alpha1\nkind: Ten"),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("lasts", [False, True], ids=["for a moment", "for good"])
@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
async def test_a_file_that_suddenly_declares_nothing_is_read_again_before_it_is_believed(
    tmp_path: Path, slip: Callable[[Path], object], lasts: bool
) -> None:
    file, waits = tmp_path / "a.yaml", 0

    async def settle() -> None:
        nonlocal waits
        waits += 1
        if not lasts:
            write(tmp_path, {"a.yaml": TENANT.replace("NAME", "a")})

    write(tmp_path, {name: TENANT.replace("NAME", name[0]) for name in ("a.yaml", "b.yaml")})
    source = Directory(tmp_path, admit, PackageFiles(StoredPackages(), build), settle=settle)
    first = await source.read()
    assert waits == 0, "a first read believes what it finds"
    slip(file)
    again = await source.read()
    assert waits == 1
    assert (again.documents == first.documents) == (not lasts)
    await source.read()
    assert waits == 1, "what was believed is not waited for again"
