"""The commit and author of a document: the commit holds it at the named line, and its author wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git import provenance
from tenantry.adapters.sources.git.command import Git, GitLimits
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Ref
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tests.scenario.repositories import ADA, BEN, Remote

CAT = "Cat Kim <cat@example.com>"


def tenant(name: str, shown: str = "") -> str:
    return (
        f"apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {{displayName: {shown or name}}}\n"
    )


def file(*documents: str) -> str:
    return "---\n".join(documents)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote.at(tmp_path / "remote")


def merge(remote: Remote, files: dict[str, str], ours: str, theirs: str, author: str = CAT) -> str:
    """A merge commit of two commits, with those files."""
    tree = remote.tree({name: content.encode() for name, content in files.items()})
    name, _, address = author.partition(" <")
    who: dict[str, Any] = {f"GIT_{role}_NAME": name for role in ("AUTHOR", "COMMITTER")}
    who |= {f"GIT_{role}_EMAIL": address.rstrip(">") for role in ("AUTHOR", "COMMITTER")}
    commit = remote.git("commit-tree", tree, "-p", ours, "-p", theirs, "-m", "merge", **who)
    remote.git("update-ref", "refs/heads/main", commit)
    return commit


async def read(remote: Remote, tail: str = "@main", **limits: Any) -> Tree:
    folder = remote.folder.parent
    blobs = FolderBlobs(folder / "blobs", inspect)
    files = PackageFiles(blobs, build, blobs.incoming)
    settings = GitSettings(limits=GitLimits(**limits))
    url = parse_git_url(remote.url(tail))
    source = GitSource(
        url, folder / "cache", lambda one: Admission().admit(one, None), files, lambda: datetime.now(UTC), settings
    )
    return await source.read()


def credited(remote: Remote, tree: Tree) -> dict[str, tuple[str, str]]:
    """Commit and author by object, after a look that the commit has its author and holds the object at the line."""
    found = {}
    for each in tree.documents:
        origin = tree.origin(each.place)
        assert origin is not None
        if origin.author:
            assert remote.git("show", "-s", "--format=%an <%ae>", origin.commit) == origin.author
        lines = remote.git("show", f"{origin.commit}:{each.place.file}").splitlines()
        block = lines[(origin.line or each.place.line) - 1 :][:4]
        assert block[0].startswith("apiVersion"), (each.ref, origin)
        assert f"name: {each.ref.name}}}" in block[2], (each.ref, origin)
        found[each.ref.name] = (origin.commit, origin.author)
    return found


async def test_two_authors_of_one_file_in_one_push_are_each_credited(remote: Remote) -> None:
    ada = remote.commit({"a.yaml": file(tenant("one"), tenant("two"), tenant("three"))})
    ben = remote.commit({"a.yaml": file(tenant("one"), tenant("two", "Two"), tenant("three"))}, BEN)
    cat = remote.commit({"a.yaml": file("# more\n" + tenant("zero"), tenant("one"), tenant("two", "Two"), tenant("three"))}, CAT)
    expected = {"zero": (cat, CAT), "one": (ada, ADA), "two": (ben, BEN), "three": (ada, ADA)}
    assert credited(remote, await read(remote)) == expected


async def test_who_removes_a_line_has_written_the_document(remote: Remote) -> None:
    more = tenant("one").replace("{displayName: one}", "\n  displayName: one\n  suspended: true")
    first = remote.commit({"a.yaml": file(tenant("two"), more)})
    ben = remote.commit({"a.yaml": file(tenant("two"), more.replace("\n  suspended: true", ""))}, BEN)
    remote.commit({"a.yaml": file(tenant("two"), more.replace("\n  suspended: true", ""), tenant("three"))}, CAT)
    tree = await read(remote)
    found = credited(remote, tree)
    assert (found["one"], found["two"]) == ((ben, BEN), (first, ADA))


@pytest.mark.parametrize("tail", ["@main", "@main:app"], ids=["the whole repository", "a folder"])
async def test_a_merge_without_conflict_credits_each_branch(remote: Remote, tail: str) -> None:
    base = remote.commit({"app/a.yaml": file(tenant("one"), tenant("two")), "README": "1"})
    side = remote.commit({"app/a.yaml": file(tenant("one"), tenant("two", "Two"))}, BEN, branch="side", parent=base)
    remote.commit({"README": "2"}, BEN, branch="side", parent=side)
    ours = remote.commit({"app/a.yaml": file(tenant("one", "One"), tenant("two")), "README": "1"}, ADA, parent=base)
    theirs = remote.git("rev-parse", "side")
    merge(remote, {"app/a.yaml": file(tenant("one", "One"), tenant("two", "Two")), "README": "2"}, ours, theirs)
    assert credited(remote, await read(remote, tail)) == {"one": (ours, ADA), "two": (side, BEN)}


async def test_a_conflict_that_a_merge_resolves_is_its_authors(remote: Remote) -> None:
    base = remote.commit({"a.yaml": file(tenant("one"), tenant("two"))})
    theirs = remote.commit({"a.yaml": file(tenant("one", "Ben"), tenant("two"))}, BEN, branch="side", parent=base)
    ours = remote.commit({"a.yaml": file(tenant("one", "Ada"), tenant("two"))}, ADA, parent=base)
    merged = merge(remote, {"a.yaml": file(tenant("one", "Both"), tenant("two"))}, ours, theirs)
    assert credited(remote, await read(remote)) == {"one": (merged, CAT), "two": (base, ADA)}


@pytest.mark.parametrize("taken", ["Ada", "Ben"], ids=["of the first parent", "of the second parent"])
async def test_a_merge_that_takes_one_side_credits_that_side(remote: Remote, taken: str) -> None:
    base = remote.commit({"a.yaml": tenant("one")})
    ours = remote.commit({"a.yaml": tenant("one", "Ada")}, ADA, parent=base)
    theirs = remote.commit({"a.yaml": tenant("one", "Ben")}, BEN, branch="side", parent=base)
    merge(remote, {"a.yaml": tenant("one", taken)}, ours, theirs)
    assert credited(remote, await read(remote)) == {"one": {"Ada": (ours, ADA), "Ben": (theirs, BEN)}[taken]}


async def test_a_document_that_moves_within_its_file_stays_its_authors(remote: Remote) -> None:
    base = remote.commit({"a.yaml": file(tenant("one"), tenant("two"))})
    remote.commit({"a.yaml": file(tenant("two"), "# last\n" + tenant("three"), tenant("one"))}, BEN)
    found = credited(remote, await read(remote))
    assert (found["one"], found["two"]) == ((base, ADA), (base, ADA))


async def test_who_moves_a_document_to_another_file_is_credited(remote: Remote) -> None:
    remote.commit({"a.yaml": file(tenant("one"), tenant("two"))})
    ben = remote.commit({"a.yaml": None, "b.yaml": file(tenant("one"), tenant("two"))}, BEN)
    cat = remote.commit({"b.yaml": tenant("one"), "c.yaml": tenant("two")}, CAT)
    assert credited(remote, await read(remote)) == {"one": (ben, BEN), "two": (cat, CAT)}


async def test_what_is_older_than_the_known_history_has_no_author(remote: Remote) -> None:
    remote.commit({"a.yaml": file(tenant("one"), tenant("two"))})
    for number in range(3):
        tip = remote.commit(
            {"a.yaml": file("# new\n" * number + tenant("zero", f"n{number}"), tenant("one"), tenant("two"))}, BEN
        )
    assert credited(remote, await read(remote, depth=2)) == {"zero": (tip, BEN), "one": (tip, ""), "two": (tip, "")}


async def test_who_removed_a_document_is_credited_with_it(remote: Remote) -> None:
    remote.commit({"a.yaml": file(tenant("one"), tenant("two"), tenant("one-more"))})
    ben = remote.commit({"a.yaml": file(tenant("two"), tenant("one-more"))}, BEN)
    remote.commit({"a.yaml": file(tenant("two", "Two"), tenant("one-more"))}, CAT)
    gone = remote.commit({"a.yaml": None}, ADA)
    remote.commit({"b.yaml": tenant("three")}, CAT)
    tree = await read(remote)
    assert tree.removal("a.yaml", Ref("Tenant", "", "one")) == (ben, BEN, 0)
    assert tree.removal("a.yaml", Ref("Tenant", "", "two")) == (gone, ADA, 0)


async def test_many_changed_files_take_three_processes_and_the_last_commit_of_the_older_ones(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "MOST_FILES", 5)
    for author in (ADA, BEN):
        files = {f"{number}.yaml": file(tenant(f"a{number}"), tenant(f"b{number}", author[:3])) for number in range(20)}
        remote.commit(files, author)
    ran: list[str] = []
    run = Git.run

    async def counted(self: Git, *arguments: str, **options: Any) -> bytes:
        ran.append(arguments[0])
        return await run(self, *arguments, **options)

    monkeypatch.setattr(Git, "run", counted)
    found = credited(remote, await read(remote))
    assert (ran.count("log"), ran.count("cat-file"), "blame" in ran) == (1, 3, False)  # one of them reads the tree itself
    assert sum(author == ADA for _, author in found.values()) == 5
