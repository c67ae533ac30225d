"""A repository read as a source: which revision, what of it, and what becomes of a cache that is not sound."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git.command import GitLimits
from tenantry.adapters.sources.git.entering import RemoteAccess
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.state import FIRST_RETRY_S, LAST_RETRY_S, pause_s
from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Document
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tests.scenario.repositories import ADA, BEN, Remote, served_over_http
from tests.support.patience import DEADLINE_S

ADMISSION = Admission()
API = "apiVersion: tenantry.dev/v1alpha1\n"
MANIFEST = "apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Example\nversion: 1.0.0\n"
PACKAGE = f"""{API}kind: Package
metadata: {{name: crm, namespace: tenant-acme}}
spec: {{app: crm, version: 1.0.0, source: {{path: PATH}}}}
"""


def tenant(name: str) -> str:
    return f"{API}kind: Tenant\nmetadata: {{name: {name}}}\nspec: {{displayName: {name}}}\n"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote.at(tmp_path / "remote")


Opened = Callable[..., GitSource]


@pytest.fixture
def opened(remote: Remote, tmp_path: Path) -> Opened:
    """A source on the repository; all of them keep their cache in one folder, as one process after another would."""

    def make(tail: str = "@main", **limits: Any) -> GitSource:
        return source_at(remote.url(tail), tmp_path, GitSettings(limits=GitLimits(**limits)))

    return make


Elsewhere = Callable[..., GitSource]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    """A source at any URL."""

    def make(url: str, secret: str = "") -> GitSource:
        return source_at(url, tmp_path, GitSettings(enter=RemoteAccess(parse_git_url(url), secret).enter))

    return make


def source_at(url: str, folder: Path, settings: GitSettings) -> GitSource:
    blobs = FolderBlobs(folder / "blobs", inspect)
    files = PackageFiles(blobs, build, blobs.incoming)
    return GitSource(parse_git_url(url), folder / "cache", admit, files, lambda: datetime.now(UTC), settings)


def admit(document: Document) -> Document:
    return ADMISSION.admit(document, None)


def names(tree: Tree) -> list[str]:
    return sorted(each.ref.name for each in tree.documents)


def problems(tree: Tree) -> list[str]:
    return [str(problem) for problem in (*tree.problems, *tree.held)]


def told(tree: Tree, file: str) -> tuple[str, str]:
    """Commit and author of the first document of a file."""
    origin = tree.origin(next(each.place for each in tree.documents if each.place.file == file))
    assert origin is not None
    return origin.commit, origin.author


REVISIONS = {
    "a branch": ("@next", ["acme", "next"]),
    "a branch with a slash": ("@feature/x", ["acme"]),
    "a tag": ("@v1", ["acme"]),
    "an annotated tag": ("@v1-signed", ["acme"]),
    "a branch before a tag of its name": ("@both", ["acme", "beta"]),
    "the repository's own branch": ("", ["acme", "beta"]),
    "a folder": ("@main:more", ["beta"]),
    "a folder of the repository's own branch": ("@:more", ["beta"]),
    "a file": ("@main:more/b.yaml", ["beta"]),
    "a file at the top": ("@main:a.yaml", ["acme"]),
}


@pytest.mark.parametrize(("tail", "expected"), REVISIONS.values(), ids=REVISIONS)
async def test_it_reads(remote: Remote, opened: Opened, tail: str, expected: list[str]) -> None:
    first = remote.commit({"a.yaml": tenant("acme")})
    remote.git("tag", "v1", first)
    remote.git("tag", "both", first)
    who: dict[str, Any] = {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com"}
    remote.git("tag", "-a", "-m", "release", "v1-signed", first, **who)
    remote.git("branch", "feature/x", first)
    remote.commit({"next.yaml": tenant("next")}, branch="next", parent=first)
    last = remote.commit({"next.yaml": None, "more/b.yaml": tenant("beta"), ".hidden/c.yaml": tenant("hidden")})
    remote.git("branch", "both", last)
    tree = await opened(tail).read()
    assert problems(tree) == []
    assert names(tree) == expected


async def test_a_repository_of_sha256_ids_is_read(opened: Opened, remote: Remote) -> None:
    shutil.rmtree(remote.folder)
    longer = Remote.at(remote.folder, sha256=True)
    commit = longer.commit({"a.yaml": tenant("acme")})
    for tail in ("@main", f"@{commit}"):
        tree = await opened(tail).read()
        assert (names(tree), tree.revision.commit if tree.revision else "") == (["acme"], commit)


async def test_a_commit_is_fetched_once_and_never_asked_for_again(remote: Remote, opened: Opened) -> None:
    first = remote.commit({"a.yaml": tenant("acme")})
    remote.commit({"b.yaml": tenant("beta")})
    assert names(await opened(f"@{first}").read()) == ["acme"]
    shutil.rmtree(remote.folder)
    tree = await opened(f"@{first}").read()
    assert (names(tree), tree.away, problems(tree)) == (["acme"], "", [])


MISSING = {
    "a branch": ("@none", "the repository has no branch or tag none"),
    "a folder": ("@main:none", "none: is not in "),
    "a folder that was": ("@main:gone", "gone: is not in "),
    "a folder below a file": ("@main:a.yaml/b", "a.yaml/b: is not in "),
    "a commit": ("@" + 40 * "1", "1111"),
}


@pytest.mark.parametrize(("tail", "told"), MISSING.values(), ids=MISSING)
async def test_what_is_not_there_is_told(remote: Remote, opened: Opened, tail: str, told: str) -> None:
    remote.commit({"a.yaml": tenant("acme"), "gone/a.yaml": tenant("gone")})
    remote.commit({"gone/a.yaml": None})
    tree = await opened(tail).read()
    assert told in problems(tree)[0]
    assert tree.documents == ()


async def test_an_empty_repository_is_told(opened: Opened) -> None:
    tree = await opened("").read()
    assert "the repository is empty" in problems(tree)[0]


async def test_authors_older_than_the_history_that_was_fetched_are_not_guessed(remote: Remote, opened: Opened) -> None:
    remote.commit({"old.yaml": tenant("old")})
    for number in range(4):
        remote.commit({f"{number}.yaml": tenant(f"t{number}")}, BEN)
    tree = await opened(depth=3).read()
    assert tree.revision is not None
    assert told(tree, "3.yaml") == (tree.revision.commit, BEN)
    assert told(tree, "old.yaml") == (tree.revision.commit, "")


async def test_a_file_that_came_by_a_merge_is_its_authors(remote: Remote, opened: Opened) -> None:
    base = remote.commit({"a.yaml": tenant("acme")})
    side = remote.commit({"b.yaml": tenant("beta")}, BEN, branch="side", parent=base)
    merged = remote.git("rev-parse", f"{side}^{{tree}}")
    remote.commit({"b.yaml": None, "c.yaml": tenant("gamma")}, parent=base)
    names = [f"GIT_{role}_{part}" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")]
    who: dict[str, Any] = dict.fromkeys(names, "m@example.com")
    tip = remote.git("commit-tree", merged, "-p", "main", "-p", side, "-m", "merge", **who)
    remote.git("update-ref", "refs/heads/main", tip)
    tree = await opened().read()
    assert told(tree, "b.yaml") == (side, BEN)
    assert told(tree, "a.yaml") == (base, ADA)


async def test_only_what_changed_is_read_again(remote: Remote, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    admit = ADMISSION.admit

    def noted(_: Admission, new: Document, old: Document | None) -> Document:
        read.append(new["metadata"]["name"])
        return admit(new, old)

    monkeypatch.setattr(Admission, "admit", noted)
    remote.commit({f"{number}.yaml": tenant(f"t{number}") for number in range(9)})
    source = opened()
    await source.read()
    assert len(read) == 9
    read.clear()
    await source.read()
    remote.commit({"README": "nothing of ours"})
    await source.read()
    assert read == []
    remote.commit({"4.yaml": tenant("four"), "moved/5.yaml": tenant("t5"), "5.yaml": None})
    assert "four" in names(await source.read())
    assert sorted(read) == ["four", "t5"]


def cut_short(cache: Path) -> None:
    for pack in (cache / "repository" / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        os.truncate(pack, pack.stat().st_size // 2)


def without_objects(cache: Path) -> None:
    shutil.rmtree(cache / "repository" / "objects")


def without_head(cache: Path) -> None:
    (cache / "repository" / "HEAD").unlink()


def locked(cache: Path) -> None:
    for name in ("HEAD", "config", "shallow", "packed-refs", "refs/tenantry/read", "refs/tenantry/fetched"):
        (cache / "repository" / f"{name}.lock").touch()


def left_over(cache: Path) -> None:
    (cache / "repository" / "objects" / "pack" / "tmp_pack_x").write_bytes(b"x" * 100)
    (cache / "repository" / "objects" / "tmp_objdir-incoming-x").mkdir()


def no_folder(cache: Path) -> None:
    shutil.rmtree(cache)


def foreign(cache: Path) -> None:
    (cache / "repository" / "config").write_text("[core]\n\trepositoryformatversion = 99\n")


DAMAGES = (cut_short, without_objects, without_head, locked, left_over, no_folder, foreign)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("restarted", [False, True], ids=["while it runs", "at a start"])
async def test_a_cache_that_is_not_sound_is_made_anew(
    remote: Remote, opened: Opened, tmp_path: Path, damage: Callable[[Path], None], restarted: bool
) -> None:
    remote.commit({"a.yaml": tenant("acme")})
    source = opened()
    await source.read()
    damage(tmp_path / "cache")
    remote.commit({"b.yaml": tenant("beta")})
    tree = await (opened() if restarted else source).read()
    assert (names(tree), tree.away, problems(tree)) == (["acme", "beta"], "", [])
    assert not [*(tmp_path / "cache").rglob("*.lock"), *(tmp_path / "cache").rglob("tmp_*")]


@pytest.mark.slow
async def test_a_fetch_larger_than_the_limit_is_refused_and_leaves_nothing(
    remote: Remote, opened: Opened, tmp_path: Path
) -> None:
    remote.commit({"a.yaml": tenant("acme")})
    source = opened(bytes=2**20)
    assert names(await source.read()) == ["acme"]
    remote.commit({"big.bin": os.urandom(3 * 2**20), "b.yaml": tenant("beta")})
    tree = await source.read()
    assert names(tree) == ["acme"]
    assert "transfers more than 1 MiB" in tree.away
    assert sum(file.stat().st_size for file in (tmp_path / "cache").rglob("*") if file.is_file()) < 2**20
    remote.commit({"big.bin": None}, parent="none")
    tree = await source.read()
    assert (names(tree), tree.away) == (["acme", "beta"], "")


@pytest.mark.slow
async def test_a_remote_that_does_not_answer_is_given_up_and_its_connection_closed(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    monkeypatch.setattr("tenantry.adapters.sources.git.repository.ASK_S", 3.0)
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        tree = await elsewhere(f"git+http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x@main").read()
        assert "git ls-remote took longer than" in tree.away
        await asyncio.wait_for(closed.wait(), DEADLINE_S)


async def test_a_look_that_is_cancelled_ends_its_processes(elsewhere: Elsewhere) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        closed.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        look = asyncio.create_task(elsewhere(f"git+http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x@main").read())
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        look.cancel()
        with pytest.raises(asyncio.CancelledError):
            await look
        await asyncio.wait_for(closed.wait(), DEADLINE_S)


def children() -> set[str]:
    """The processes of which this one is the parent, those that have ended and were not waited for among them."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(stat.parent.name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_loop_that_ends_during_a_command_leaves_no_process_and_no_warning(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: told.append(repr(what.exc_value)))
    before = children()

    async def ends() -> None:
        asked = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        look = asyncio.ensure_future(elsewhere(f"git+http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x@main").read())
        await asyncio.wait_for(asked.wait(), DEADLINE_S)
        assert children() - before, "git runs"
        assert not look.done()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ends())
    gc.collect()
    assert (children() - before, told) == (set(), [])


async def test_a_repository_is_fetched_over_http(remote: Remote, elsewhere: Elsewhere) -> None:
    remote.commit({"a.yaml": tenant("acme")})
    with served_over_http(remote.folder.parent) as served:
        source = elsewhere(f"git+{served.url}/remote@main")
        assert names(await source.read()) == ["acme"]
        remote.commit({"b.yaml": tenant("beta")})
        assert names(await source.read()) == ["acme", "beta"]


async def test_credentials_go_by_a_header_to_their_host_alone(remote: Remote, elsewhere: Elsewhere) -> None:
    remote.commit({"a.yaml": tenant("acme")})
    with served_over_http(remote.folder.parent) as served:
        tree = await elsewhere(f"git+{served.url}/remote@main", secret="ann:secret").read()
        assert names(tree) == ["acme"]
        assert served.authorizations == {"Basic YW5uOnNlY3JldA=="}
        served.moved_to = "http://127.0.0.1:1/elsewhere"
        tree = await elsewhere(f"git+{served.url}/remote@main", secret="ann:secret").read()
        assert tree.away != ""
        assert "YW5uOnNlY3JldA" not in tree.away


async def test_no_foreign_configuration_hook_or_variable_reaches_git(
    remote: Remote, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    runs = tmp_path / "run.sh"
    runs.write_text(f'#!/bin/sh\ntouch {marker}\nexec "$@"\n')
    runs.chmod(0o755)
    other = Remote.at(tmp_path / "other")
    other.commit({"x.yaml": tenant("stolen")})
    home = tmp_path / "home"
    home.mkdir()
    runners = ("core.fsmonitor", "core.sshCommand", "core.pager", "uploadpack.packObjectsHook", "gpg.program")
    for name, value in [*((name, str(runs)) for name in runners), ("log.showSignature", "true")]:
        remote.git("config", "--file", str(home / ".gitconfig"), name, value)
    remote.git("config", "--file", str(home / ".gitconfig"), f"url.file://{other.folder}.insteadOf", f"file://{remote.folder}")
    hostile = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "GIT_DIR": str(other.folder), "GIT_SSH": str(runs)}
    hostile |= {"GIT_EXTERNAL_DIFF": str(runs), "GIT_TRACE": str(marker), "GIT_CONFIG_PARAMETERS": "'core.pager=id'"}
    hostile |= {"GIT_OBJECT_DIRECTORY": str(other.folder / "objects"), "GIT_EXEC_PATH": str(home), "GIT_ASKPASS": str(runs)}
    remote.commit({"a.yaml": tenant("acme")})
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    tree = await opened().read()
    assert (names(tree), problems(tree)) == (["acme"], [])
    assert not marker.exists()


async def test_a_full_disk_is_told_and_the_last_good_commit_stays(
    remote: Remote, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.commit({"a.yaml": tenant("acme")})
    source = opened()
    await source.read()

    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    remote.commit({"p.yaml": PACKAGE.replace("PATH", "app"), "app/app.yaml": MANIFEST})
    with monkeypatch.context() as patched:
        patched.setattr("tenantry.adapters.sources.git.packages.GitPackages._write", full)
        tree = await source.read()
        assert (names(tree), "No space left on device" in tree.away) == (["acme"], True)
    tree = await source.read()
    assert (names(tree), tree.away) == (["acme", "crm"], "")
    assert [each.name[0] for each in (tmp_path / "cache" / "packages").iterdir() if each.name.startswith(".")] == []


def test_pauses_grow_while_the_remote_is_away_and_end_with_it() -> None:
    assert [pause_s(60, failures) for failures in (0, 1, 2, 3)] == [60, FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pause_s(60, 1000) == LAST_RETRY_S
    assert pause_s(3600, 1000) == 3600


PATHS = {
    "a folder beside it": ("app", ""),
    "a folder above it": ("../app", ""),
    "a folder with a slash at its end": ("app/", ""),
    "its own folder, which is none": (".", "holds no app.yaml"),
    "nothing": ("none", "'none' does not exist"),
    "what leads out": ("../../app", "leads out of the directory"),
    "what leads out and back": ("../../repository/deploy/app", "leads out of the directory"),
    "an absolute path": ("/etc", "must be relative to the YAML file, with /"),
    "a folder that is no package": ("../docs", "'../docs' holds no app.yaml"),
    "a file that is no package": ("../docs/x", "spec.source.path"),
}


@pytest.mark.parametrize(("path", "told"), PATHS.values(), ids=PATHS)
async def test_a_package_may_name(remote: Remote, opened: Opened, path: str, told: str) -> None:
    files = {"app/app.yaml": MANIFEST, "deploy/app/app.yaml": MANIFEST, "deploy/app/content/x": "x", "docs/x": "x"}
    remote.commit({**files, "deploy/p.yaml": PACKAGE.replace("PATH", path)})
    tree = await opened().read()
    if told:
        assert told in problems(tree)[0]
    else:
        assert problems(tree) == []
        assert len(tree.documents[0].document["spec"]["sha256"]) == 64


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"yaml": 300}, "with it, the files hold more than 0 MiB"),
        ({"entries": 3}, "the tree holds more than 3 files"),
        ({"packages": 10}, "'crm': with it, the packages hold more than 0 MiB"),
    ],
    ids=["yaml", "entries", "packages"],
)
async def test_of_more_than_a_source_may_hold_nothing_is_taken(
    remote: Remote, opened: Opened, limits: dict[str, int], why: str
) -> None:
    remote.commit({"a.yaml": tenant("acme"), "b.yaml": PACKAGE.replace("PATH", "crm"), "crm/app.yaml": MANIFEST})
    assert not (await opened().read()).problems
    remote.commit({"c.yaml": tenant("umbra")})
    tree = await opened(**limits).read()
    assert why in str((*tree.problems, *tree.held)[0])


async def test_a_copy_that_was_discarded_is_fetched_anew_before_it_is_written_to(remote: Remote, opened: Opened) -> None:
    remote.commit({"a.yaml": tenant("acme")})
    source = opened()
    assert names(await source.read()) == ["acme"]
    await source.repository.discard()
    latest = await source.latest()
    assert await source.repository.at(latest.commit, "a.yaml") is not None
