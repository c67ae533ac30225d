"""Hostile repositories: each is refused with its file, in bounded time and memory, and the last good state stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git.source import GitSettings, GitSource
from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Document
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tests.scenario.repositories import Remote
from tests.support.memory import growing

ADMISSION = Admission()
API = "apiVersion: tenantry.dev/v1alpha1\n"
GOOD = f"{API}kind: Tenant\nmetadata: {{name: acme}}\nspec: {{displayName: acme}}\n"
NEW = GOOD.replace("acme", "new")
LINK, SUBMODULE, FILE, FOLDER = "120000", "160000", "100644", "40000"
PATIENCE_S = 60.0
MEMORY = 160 << 20
"""Bytes of the process above those before. git may print 95 MiB, and they are held once."""


Content = str | bytes | Callable[[], str | bytes]
"""A function makes what is large when its test runs: each worker holds the tables from the start."""


class Hostile(NamedTuple):
    """The content of a push, and the start of its first problem. make: returns the tree's id. strict: only a strict source
    refuses it."""

    make: Callable[[Remote], str]
    told: str
    strict: bool = False


def entry(mode: str, name: bytes, content: bytes = b"x") -> Callable[[Remote], str]:
    """A tree with one entry beside a good file. For a folder, one that holds a file `f.yaml`."""

    def make(remote: Remote) -> str:
        oid = {
            LINK: lambda: remote.blob(content),
            FILE: lambda: remote.blob(content),
            SUBMODULE: lambda: 40 * "1",
            FOLDER: lambda: remote.raw_tree((FILE, b"f.yaml", remote.blob(NEW.encode()))),
        }.get(mode, lambda: remote.blob(content))()
        entries = [(FILE, b"m.yaml", remote.blob(GOOD.encode())), (mode, name, oid)]
        return remote.raw_tree(*sorted(entries, key=lambda each: each[1]))

    return make


def files(**contents: Content) -> Callable[[Remote], str]:
    """A tree of regular files; `_` in a name stands for a dot."""

    def make(remote: Remote) -> str:
        named = {name.replace("_", "."): each() if callable(each) else each for name, each in contents.items()}
        return remote.tree({name: each.encode() if isinstance(each, str) else each for name, each in named.items()})

    return make


def yaml(text: Content) -> Callable[[Remote], str]:
    return files(m_yaml=GOOD, z_yaml=text)


def below(mode: str, name: bytes, content: bytes = b"x") -> Callable[[Remote], str]:
    """The same entry in a folder."""

    def make(remote: Remote) -> str:
        return remote.raw_tree((FOLDER, b"sub", entry(mode, name, content)(remote)))

    return make


def twice(remote: Remote) -> str:
    return remote.raw_tree((FILE, b"a.yaml", remote.blob(GOOD.encode())), (FILE, b"a.yaml", remote.blob(NEW.encode())))


def file_and_folder(remote: Remote) -> str:
    inner = remote.raw_tree((FILE, b"b.yaml", remote.blob(NEW.encode())))
    return remote.raw_tree((FILE, b"a.yaml", remote.blob(GOOD.encode())), (FOLDER, b"a.yaml", inner))


def missing_blob(remote: Remote) -> str:
    return remote.raw_tree((FILE, b"a.yaml", 40 * "2"))


def deep(remote: Remote, levels: int) -> str:
    tree = remote.raw_tree((FILE, b"f.yaml", remote.blob(NEW.encode())))
    for _ in range(levels):
        tree = remote.raw_tree((FOLDER, b"d", tree))
    return tree


def exploding(remote: Remote) -> str:
    """A bomb of trees: each names the one below it ten times, so that there are 10^10 files."""
    tree = remote.raw_tree((FILE, b"f.yaml", remote.blob(NEW.encode())))
    for _ in range(10):
        tree = remote.raw_tree(*((FOLDER, b"%d" % number, tree) for number in range(10)))
    return tree


def many_files(remote: Remote) -> str:
    blob = remote.blob(NEW.encode())
    return remote.raw_tree(*((FILE, b"%06d.yaml" % number, blob) for number in range(50_001)))


def large_file(remote: Remote) -> str:
    return yaml(b"#" + b" " * (17 * 2**20))(remote)


def large_files(remote: Remote) -> str:
    blob = remote.blob(b"#" + b" " * (15 * 2**20))
    return remote.raw_tree(*((FILE, b"%02d.yaml" % number, blob) for number in range(20)))


def package(path: str, *entries: tuple[str, bytes, bytes], version: str = "1.0.0") -> Callable[[Remote], str]:
    """A Package of a folder `app` with those entries."""
    spec = f"{{app: crm, version: {version}, source: {{path: {path!r}}}}}"
    document = f"{API}kind: Package\nmetadata: {{name: crm, namespace: tenant-acme}}\nspec: {spec}\n"
    manifest = b"apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Example\nversion: 1.0.0\n"

    def make(remote: Remote) -> str:
        held = [(mode, name, remote.blob(content)) for mode, name, content in entries]
        if not any(name == b"app.yaml" for _, name, _ in held):
            held.append((FILE, b"app.yaml", remote.blob(manifest)))
        app = remote.raw_tree(*sorted(held, key=lambda each: each[1]))
        return remote.raw_tree((FOLDER, b"app", app), (FILE, b"p.yaml", remote.blob(document.encode())))

    return make


def alias_bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines) + "\n"


def merge_bomb() -> str:
    lines = ["a0: &a0 {k0: 0}"]
    lines += [f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 20)}]}}" for level in range(1, 12)]
    return "\n".join(lines) + "\n"


IN_TREE = {
    "a link to a file of the tree": Hostile(entry(LINK, b"z.yaml", b"m.yaml"), "z.yaml: is a link"),
    "a link out of the tree": Hostile(entry(LINK, b"z.yaml", b"../../../etc/passwd"), "z.yaml: is a link"),
    "an absolute link": Hostile(entry(LINK, b"z.yaml", b"/etc/passwd"), "z.yaml: is a link"),
    "a link to a device": Hostile(entry(LINK, b"z.yaml", b"/dev/zero"), "z.yaml: is a link"),
    "a link to itself": Hostile(entry(LINK, b"z.yaml", b"z.yaml"), "z.yaml: is a link"),
    "a link to nothing": Hostile(entry(LINK, b"z.yaml", b"none"), "z.yaml: is a link"),
    "a link with an empty target": Hostile(entry(LINK, b"z.yaml", b""), "z.yaml: is a link"),
    "a link to the folder above": Hostile(entry(LINK, b"up", b".."), "up: is a link"),
    "a link to the state folder": Hostile(entry(LINK, b"state", b"/proc/self/cwd/.tenantry"), "state: is a link"),
    "a link that has no YAML name": Hostile(entry(LINK, b"README", b"m.yaml"), "README: is a link"),
    "a link in a folder": Hostile(below(LINK, b"z.yaml", b"../../x"), "sub/z.yaml: is a link"),
    "a link with a file's mode bits": Hostile(entry("120777", b"z.yaml", b"m.yaml"), "z.yaml: is "),
    "a submodule": Hostile(entry(SUBMODULE, b"vendor"), "vendor: is a submodule"),
    "a submodule with a YAML name": Hostile(entry(SUBMODULE, b"z.yaml"), "z.yaml: is a submodule"),
    "a submodule in a folder": Hostile(below(SUBMODULE, b"vendor"), "sub/vendor: is a submodule"),
    "a submodule named like an option": Hostile(entry(SUBMODULE, b"--upload-pack=x"), "--upload-pack=x: is a submodule"),
    ".git as a folder": Hostile(entry(FOLDER, b".git"), ".git/f.yaml: is git's own folder"),
    ".git as a file": Hostile(entry(FILE, b".git", b"gitdir: /"), ".git: is git's own folder"),
    ".git as a link": Hostile(entry(LINK, b".git", b"/"), ".git: is git's own folder"),
    ".GIT": Hostile(entry(FOLDER, b".GIT"), ".GIT/f.yaml: is git's own folder"),
    ".git with a space": Hostile(entry(FOLDER, b".git "), ".git /f.yaml: is git's own folder"),
    ".git with a dot": Hostile(entry(FOLDER, b".git."), ".git./f.yaml: is git's own folder"),
    "git's short name": Hostile(entry(FOLDER, b"GIT~1"), "GIT~1/f.yaml: is git's own folder"),
    ".git in a folder": Hostile(below(FOLDER, b".git"), "sub/.git/f.yaml: is git's own folder"),
    "a folder named ..": Hostile(entry(FOLDER, b".."), "../f.yaml: leads out of the tree"),
    "a folder named .": Hostile(entry(FOLDER, b"."), "./f.yaml: leads out of the tree"),
    "a file named ..": Hostile(entry(FILE, b".."), "..: leads out of the tree"),
    "a name with a slash": Hostile(entry(FILE, b"../z.yaml"), "../z.yaml: leads out of the tree"),
    "an absolute name": Hostile(entry(FILE, b"/etc/z.yaml"), "/etc/z.yaml: leads out of the tree"),
    "an empty name": Hostile(entry(FILE, b""), "empty filename in tree entry"),
    "a name with a backslash": Hostile(entry(FILE, b"..\\z.yaml"), "..\\z.yaml: has a name with a backslash"),
    "a name with a newline": Hostile(entry(FILE, b"a\nb.yaml"), "a\\nb.yaml: has a name with"),
    "a name that clears the terminal": Hostile(entry(FILE, b"\x1b[2Ja.yaml"), "\\x1b[2Ja.yaml: has a name with"),
    "a name written backwards": Hostile(entry(FILE, "a\u202elmay.yaml".encode()), "a\\u202elmay.yaml: has a name with"),
    "a name that is not UTF-8": Hostile(entry(FILE, b"\xff\xfe.yaml"), "\\xff\\xfe.yaml: has a name that is not UTF-8"),
    "a name of 2,000 bytes": Hostile(entry(FILE, b"n" * 2000 + b".yaml"), "nnnnnnnn"),
    "a folder 100 deep": Hostile(lambda remote: deep(remote, 100), "d/d/d/d/d/d/"),
    "a folder 20,000 deep": Hostile(lambda remote: deep(remote, 20_000), "d/d/d/d/d/d/"),
    "a bomb of trees": Hostile(exploding, "cannot be read: git printed more than 95 MiB"),
    "the same name twice": Hostile(twice, "a.yaml: appears twice"),
    "a file and a folder of one name": Hostile(file_and_folder, "a.yaml: is a file and a folder at once"),
    "names that differ by case": Hostile(files(a_yaml=GOOD, A_yaml=NEW), "a.yaml: differs from A.yaml only in upper and lower"),
    "a file of an unknown mode": Hostile(entry("140000", b"z.yaml"), "z.yaml: is a submodule"),
    "a blob that is missing": Hostile(missing_blob, "unable to read 2222222222"),
    "50,001 files": Hostile(many_files, ".: holds more than 50,000 YAML files"),
    "more than 256 MiB of files": Hostile(large_files, "17.yaml: with it, the files hold more than 256 MiB"),
    "one file larger than 16 MiB": Hostile(large_file, "z.yaml: is larger than 16 MiB"),
    "a Git LFS pointer": Hostile(
        yaml("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n"), "z.yaml: is a Git LFS pointer"
    ),
}
IN_YAML = {
    "an alias bomb": Hostile(yaml(alias_bomb(9, 10)), "z.yaml:5: aliases repeat more than 100,000 values"),
    "a wide alias bomb": Hostile(yaml(lambda: alias_bomb(4, 5000)), "z.yaml:3: aliases repeat more than 100,000 values"),
    "a merge bomb": Hostile(yaml(merge_bomb()), "z.yaml:"),
    "an alias of what holds it": Hostile(yaml("a: &a [*a]\n"), "z.yaml:1: the alias *a has no anchor before it"),
    "an alias of nothing": Hostile(yaml("a: *b\n"), "z.yaml:1: the alias *b has no anchor before it"),
    "a Python tag": Hostile(yaml("a: !!python/object/apply:os.system [id]\n"), "z.yaml:1: the tag "),
    "a tag of its own": Hostile(yaml("a: 1\nb: !Ref x\n"), "z.yaml:2: the tag !Ref is not allowed"),
    "a binary tag": Hostile(yaml("a: !!binary aGk=\n"), "z.yaml:1: the tag "),
    "a tag on the document": Hostile(yaml("--- !!map\na: 1\n"), "z.yaml:1: the tag "),
    "a key twice": Hostile(yaml("kind: Tenant\nkind: Region\n"), "z.yaml:2: the key 'kind' appears twice"),
    "a key twice, once quoted": Hostile(yaml("kind: Tenant\n'kind': Region\n"), "z.yaml:2: the key 'kind' appears twice"),
    "a key that is a mapping": Hostile(yaml("{a: 1}: x\n"), "z.yaml:1: "),
    "a NUL byte": Hostile(yaml(b"a: \0\n"), "z.yaml:"),
    "nothing but NUL bytes": Hostile(yaml(bytes(1000)), "z.yaml:"),
    "bytes that are not UTF-8": Hostile(yaml(b"a: 1\nb: \xff\xfe\n"), "z.yaml:2: the file is not UTF-8"),
    "UTF-16": Hostile(yaml(NEW.encode("utf-16")), "z.yaml:1: the file is not UTF-8"),
    "a lone surrogate": Hostile(yaml(b"a: \xed\xa0\x80\n"), "z.yaml:1: the file is not UTF-8"),
    "a control character": Hostile(yaml("a: \x1b[2J\n"), "z.yaml:"),
    "flow nested 10,000 deep": Hostile(yaml("a: " + "[" * 10_000), "z.yaml:1: nested deeper than 64 levels"),
    "blocks nested 1,000 deep": Hostile(yaml(lambda: "".join(f"{' ' * n}a:\n" for n in range(1000))), "z.yaml:"),
    "mappings nested 100,000 deep": Hostile(yaml(lambda: "{a: " * 100_000), "z.yaml:1: nested deeper than 64 levels"),
    "sequences nested 100,000 deep": Hostile(yaml(lambda: "- " * 100_000), "z.yaml:1: nested deeper than 64 levels"),
    "an open quote": Hostile(yaml("a: 'x\n"), "z.yaml:"),
    "tabs for indentation": Hostile(yaml("a:\n\tb: 1\n"), "z.yaml:2: "),
    "a directive for another version": Hostile(yaml("%YAML 9.9\n---\na: 1\n"), "z.yaml:1: "),
    "infinity": Hostile(yaml("a: .inf\n"), "z.yaml:1: .inf is not a JSON number"),
    "a number that no JSON of 64 bits holds": Hostile(
        yaml(NEW.replace("displayName: new", f"displayName: {'9' * 30}")), "z.yaml:"
    ),
    "half of a character, escaped": Hostile(yaml(NEW.replace("displayName: new", '"displayName": "\\ud800"')), "z.yaml:"),
    "a number of 5,000 digits": Hostile(yaml(f"a: {'9' * 5000}\n"), "z.yaml:"),
    "an exponent without end": Hostile(yaml("a: 1e999999999\n"), "z.yaml:1: the number is too large"),
    "60,000 documents in a file": Hostile(yaml(lambda: "a: 1\n---\n" * 60_000), "z.yaml:"),
    "a scalar of 10 MiB": Hostile(yaml(lambda: "a: " + "x" * (10 * 2**20)), "z.yaml:1: "),
    "50,000 keys": Hostile(yaml(lambda: "".join(f"k{number}: 1\n" for number in range(50_000))), "z.yaml:1: "),
    "an anchor on every value": Hostile(yaml(lambda: "".join(f"k{n}: &n{n} 1\n" for n in range(50_000))), "z.yaml:1: "),
    "a document that is a list": Hostile(yaml("- a\n- b\n"), "z.yaml:1: must be a mapping"),
    "a document that is a word": Hostile(yaml("hello\n"), "z.yaml:1: must be a mapping"),
    "a List of lists": Hostile(yaml("kind: List\nitems: [[1], 2]\n"), "z.yaml:2: must be a mapping"),
    "a List within a List": Hostile(yaml("kind: List\nitems: [{kind: List, items: []}]\n"), "z.yaml:2: "),
    "an unknown kind": Hostile(yaml(f"{API}kind: Role\nmetadata: {{name: x}}\n"), "z.yaml:2: kind: "),
    "a kind of Kubernetes": Hostile(yaml("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"), "z.yaml:", strict=True),
    "an unknown field": Hostile(yaml(f"{API}kind: Tenant\nmetadata: {{name: x}}\nspec: {{slgu: y}}\n"), "z.yaml:4: spec.slgu: "),
    "a name with a path in it": Hostile(yaml(NEW.replace("{name: new}", "{name: ../../x}")), "z.yaml:3: metadata.name: "),
    "a name of 10,000 characters": Hostile(yaml(NEW.replace("name: new", f"name: {'x' * 10_000}")), "z.yaml:3: metadata.name: "),
    "an object twice": Hostile(yaml(GOOD), "z.yaml:1: metadata.name: Tenant/acme is already declared at m.yaml:1"),
    "a kind that is a list": Hostile(yaml(f"{API}kind: [Tenant]\nmetadata: {{name: x}}\n"), "z.yaml:2: kind: "),
    "metadata that is a list": Hostile(yaml(f"{API}kind: Tenant\nmetadata: []\n"), "z.yaml:"),
    "a status that is declared": Hostile(yaml(f"{NEW}status: {{conditions: 7}}\n"), "z.yaml:"),
    "no kind": Hostile(yaml("apiVersion: tenantry.dev/v1alpha1\n"), "z.yaml:"),
}
IN_PACKAGES = {
    "a package that leads out": Hostile(package("../app"), "p.yaml:4: spec.source.path: "),
    "a package at an absolute path": Hostile(package("/etc"), "p.yaml:4: spec.source.path: "),
    "a package with a NUL in its path": Hostile(package("a\\0b"), "p.yaml:4: "),
    "a package that is a link": Hostile(package("app", (LINK, b"app.yaml", b"/etc/passwd")), "app/app.yaml: is a link"),
    "a package with a link in it": Hostile(package("app", (LINK, b"content", b"/etc")), "app/content: is a link"),
    "a package of what does not belong": Hostile(
        package("app", (FILE, b"run.sh", b"id")), "p.yaml:4: spec.source.path: app/run.sh"
    ),
    "a package whose manifest is none": Hostile(package("app", (FILE, b"app.yaml", b"- x")), "p.yaml:4: spec.source.path: "),
    "a package of another version": Hostile(package("app", version="9.9.9"), "p.yaml:4: spec.version: is '9.9.9'"),
    "a file that is no package": Hostile(package("p.yaml"), "p.yaml:4: spec.source.path: "),
    "a package with files that differ by case": Hostile(
        package("app", (FILE, b"Seed", b"x"), (FILE, b"seed", b"y")), "p.yaml:4: spec.source.path: "
    ),
}
SLOW = ("a folder 20,000 deep", "a bomb of trees", "50,001 files")
HOSTILE = {**IN_TREE, **IN_YAML, **IN_PACKAGES}


@dataclass
class World:
    """Sources that follow a repository through all that is hostile. good: the commit before."""

    remote: Remote
    source: GitSource
    strict: GitSource
    folder: Path
    good: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("hostile")
    remote = Remote.at(folder / "remote")
    good = remote.commit({"m.yaml": GOOD})
    blobs = FolderBlobs(folder / "blobs", inspect)
    packages = PackageFiles(blobs, build, blobs.incoming)
    url = parse_git_url(remote.url())
    source, strict = (
        GitSource(url, folder / "cache" / name, admit, packages, lambda: datetime.now(UTC), GitSettings(strict=name == "strict"))
        for name in ("source", "strict")
    )
    for each in (source, strict):
        asyncio.run(each.read())
    return World(remote, source, strict, folder, good)


def admit(document: Document) -> Document:
    return ADMISSION.admit(document, None)


def told(tree: Tree) -> list[str]:
    return [*map(str, tree.held), *([tree.away] if tree.away else [])]


def links_below(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_symlink()]


def test_the_table_holds_at_least_80_rows() -> None:
    assert len(HOSTILE) >= 80


@pytest.mark.parametrize(
    "hostile", [pytest.param(row, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, row in HOSTILE.items()]
)
async def test_a_push_of_what_is_hostile_is_refused_with_its_file(world: World, hostile: Hostile) -> None:
    world.remote.commit_tree(hostile.make(world.remote), parent=world.good)
    before = time.monotonic()
    with growing() as growth:
        tree = await (world.strict if hostile.strict else world.source).read()
    assert time.monotonic() - before < PATIENCE_S
    assert growth.peak < MEMORY
    assert [(each.ref.name, str(each.place)) for each in tree.documents] == [("acme", "m.yaml:1")]
    assert told(tree), "it was taken"
    assert any(hostile.told in line for line in told(tree)), told(tree)
    assert all(len(line) < 5000 and line.isprintable() for line in told(tree))
    assert links_below(world.folder / "cache") == []


async def test_a_sound_push_is_taken_after_a_hostile_one(world: World) -> None:
    world.remote.commit_tree(HOSTILE["an object twice"].make(world.remote), parent=world.good)
    assert told(await world.source.read())
    world.remote.commit({"n.yaml": NEW}, parent=world.good)
    tree = await world.source.read()
    assert told(tree) == []
    assert sorted(each.ref.name for each in tree.documents) == ["acme", "new"]
    world.remote.commit({"n.yaml": None}, parent=world.good)  # as the other tests find it
    assert [each.ref.name for each in (await world.source.read()).documents] == ["acme"]
