"""Packages: what is built can be opened, the same source gives the same bytes, and a hostile file is refused by name."""

from __future__ import annotations

import os
import re
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tenantry.model.verdicts import Invalid
from tenantry.packages import check
from tenantry.packages.build import build
from tenantry.packages.check import LONGEST_LINE, PackageLimits, inspect, open_checked, open_package
from tenantry.packages.parsing import parse_manifest
from tests.unit.engine.archives import CONTACTS, manifest, patched, with_entry, write_package, write_zip

Make = Callable[[Path], Path]
SMALL = PackageLimits(size=100_000, entries=20, inflated=4 << 20, ratio=200)


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


def named(name: str, mode: int = stat.S_IFREG | 0o644) -> Make:
    return lambda path: with_entry(path, entry(name, mode))


def files(**contents: bytes) -> Make:
    return lambda path: write_package(path, contents)


def both(*names: str) -> Make:
    return lambda path: write_package(path, dict.fromkeys(names, b"x"))


def raw(content: bytes) -> Make:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


def cut(path: Path) -> Path:
    whole = write_package(path, {"content/a": os.urandom(500)}).read_bytes()
    path.write_bytes(whole[:-40])
    return path


def renamed(old: bytes, new: bytes) -> Make:
    """A name that the library would not write."""

    def make(path: Path) -> Path:
        content = write_package(path, {old.decode(): b"x"}).read_bytes()
        assert len(old) == len(new) and old in content
        path.write_bytes(content.replace(old, new))
        return path

    return make


def doubled(path: Path) -> Path:
    write_package(path, {"content/a": b"1"})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("content/a", b"2")
    return path


def overlapping(path: Path) -> Path:
    """Two entries over the same bytes, as in a bomb that repeats one kernel."""
    write_package(path, {"content/a": b"kernel", "content/b": b"kernel"})
    with zipfile.ZipFile(path) as archive:
        first = archive.getinfo("content/a").header_offset
    return patched(path, "content/b", 42, "<I", first)


def lying_size(path: Path) -> Path:
    return patched(write_package(path, {"content/a": b"0" * 5000}), "content/a", 24, "<I", 50)


def longer_than_it_is(path: Path) -> Path:
    return patched(write_package(path, {"content/a": b"0" * 5000}), "content/a", 24, "<I", 500_000)


def wrong_sum(path: Path) -> Path:
    return patched(write_package(path, {"content/a": b"0" * 5000}), "content/a", 16, "<I", 1)


def encrypted(path: Path) -> Path:
    return patched(write_package(path, {"content/a": b"secret"}), "content/a", 8, "<H", 1)


def packed_by(method: int) -> Make:
    return lambda path: write_zip(path, {"app.yaml": manifest(), "content/a": b"x" * 100}, method)


def commented(path: Path) -> Path:
    write_package(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"PK\x05\x06 another end"
    return path


def prefixed(path: Path) -> Path:
    path.write_bytes(b"#!/bin/sh\n" + write_package(path).read_bytes())
    return path


def two_ends(path: Path) -> Path:
    """The last entry's comment is what the library takes for the locator of a 64-bit end record."""
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, 0, 1)
    last = entry("content/a")
    last.comment = locator
    return with_entry(path, last)


def huge_directory(path: Path) -> Path:
    """An end record that claims one entry before a directory of thousands."""
    one = b"PK\x01\x02" + struct.pack("<6H3I5H2I", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = one * 1500
    end = b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, 1, 1, len(directory), 0, 0)
    path.write_bytes(directory + end)
    return path


HOSTILE = {
    "an empty file": (raw(b""), "not a zip file"),
    "text": (raw(b"apiVersion: tenantry.dev/app/v1"), "not a zip file"),
    "a pointer of Git LFS": (raw(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"), "a Git LFS pointer"),
    "an archive cut short": (cut, "not a zip file"),
    "a path upwards": (named("../evil"), "../evil: is not a plain path"),
    "a path upwards in the middle": (named("content/../../evil"), "is not a plain path"),
    "a path upwards inside content": (named("content/../evil"), "is not a plain path"),
    "a dot in a path": (named("content/./a"), "is not a plain path"),
    "an empty part of a path": (named("content//a"), "is not a plain path"),
    "an absolute path": (named("/etc/passwd"), "is not a plain path"),
    "a drive": (named("C:/evil"), "is not a plain path"),
    "a backslash": (renamed(b"content/a", b"..\\evil\\a"), "character that no name may have"),
    "a NUL in a name": (renamed(b"content/ab", b"content/a\0"), "character that no name may have"),
    "a line break in a name": (named("content/a\nb"), "character that no name may have"),
    "a name that is endless": (named("content/" + "a" * 2000), "has a name of more than"),
    "folders without end": (named("content/" + "a/" * 33 + "b"), "is nested deeper than 32 folders"),
    "a symbolic link": (named("content/link", stat.S_IFLNK | 0o777), "content/link: is a link or a device"),
    "a device": (named("content/null", stat.S_IFCHR | 0o666), "is a link or a device"),
    "a pipe": (named("content/pipe", stat.S_IFIFO | 0o666), "is a link or a device"),
    "the same name twice": (doubled, "content/a: collides with content/a"),
    "names that differ in case": (both("content/a", "content/A"), "collides with content/a"),
    "names that differ in Unicode form": (both("content/\u00e9", "content/e\u0301"), "collides with"),
    "names that differ in width": (both("content/a", "content/\uff41"), "collides with content/a"),
    "a second app.yaml in capitals": (both("APP.YAML"), "collides with app.yaml"),
    "a file that is a folder too": (both("content/a", "content/a/b"), "content/a/b: lies below a file"),
    "entries over the same bytes": (overlapping, "overlap"),
    "an encrypted entry": (encrypted, "content/a: is encrypted"),
    "bzip2": (packed_by(zipfile.ZIP_BZIP2), "packed by a method other than"),
    "lzma": (packed_by(zipfile.ZIP_LZMA), "packed by a method other than"),
    "a size that is too small": (lying_size, "content/a"),
    "a size that is too large": (longer_than_it_is, "content/a"),
    "a wrong check sum": (wrong_sum, "CRC"),
    "a bomb": (lambda path: files(**{"content/a": b"0" * 900_000})(path), "content/a: inflates to more than 200 times"),
    "a bomb of many small files": (
        lambda path: write_package(path, {f"content/{i}": b"0" * 250_000 for i in range(8)}),
        "inflates to more than 200 times",
    ),
    "more than may be inflated": (lambda path: files(**{"content/a": os.urandom(30_000) * 141})(path), "inflates to more than"),
    "a large file": (lambda path: files(**{"content/a": os.urandom(100_001)})(path), "larger than 100000 bytes"),
    "too many entries": (both(*(f"content/{i}" for i in range(30))), "more than 20 entries"),
    "a directory that is larger than it says": (huge_directory, "more than 20 entries"),
    "a comment that could be another end": (commented, "comment"),
    "bytes before the archive": (prefixed, "has bytes outside of the entries"),
    "no app.yaml": (lambda path: write_zip(path, {"content/a": b"x"}), "app.yaml: is missing"),
    "an endless app.yaml": (
        lambda path: files(**{"app.yaml": b"#" + os.urandom(8_000).hex().encode() * 70})(path),
        "app.yaml: is larger than",
    ),
    "an app.yaml that is not YAML": (files(**{"app.yaml": b"a: [1"}), "app.yaml:1: is not YAML"),
    "a seed for no table": (files(**{"seed/ghosts.ndjson": b"{}"}), "seed/ghosts.ndjson: seeds a table 'ghosts'"),
    "a seed that is not NDJSON": (files(**{"seed/contacts.csv": b"1"}), "seed/contacts.csv: is not a seed"),
    "a second end in 64 bits": (two_ends, "bytes outside of the entries"),
}


@pytest.mark.parametrize(("make", "told"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_package_is_refused(tmp_path: Path, make: Make, told: str) -> None:
    path = make(tmp_path / "p.tapp")
    with pytest.raises(Invalid) as refused:
        inspect(path, SMALL)
    assert told in str(refused.value)


def test_a_good_package_tells_what_it_is(tmp_path: Path) -> None:
    contents = {"symbols.sym": b"s", "content/index.html": b"<p>", "seed/contacts.ndjson": b'{"email": "a@b"}\n'}
    path = write_package(tmp_path / "p.tapp", contents, tables=[CONTACTS], roles={"editor": {"contacts": ["read", "write"]}})
    facts = inspect(path)
    assert (facts.app, facts.version, facts.name, facts.author) == ("crm", "1.0.0", "CRM", "Example Ltd")
    assert (facts.tables, facts.symbols, facts.roles, facts.size) == (1, True, ("editor",), path.stat().st_size)


@pytest.mark.parametrize("opened", [open_package, open_checked])
def test_a_lack_of_memory_is_no_fault_of_the_package(
    opened: Callable[[Path], AbstractContextManager[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise zlib.error("Error -4 while decompressing data")

    package = files()(tmp_path / "a.tapp")
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lacking)
    with pytest.raises(MemoryError), opened(package):
        pass


def source(folder: Path) -> Path:
    (folder / "content" / "css").mkdir(parents=True)
    (folder / "app.yaml").write_bytes(manifest())
    (folder / "content" / "index.html").write_text("<p>")
    (folder / "content" / "css" / "a.css").write_text("p {}")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("private")
    return folder


def test_the_same_source_gives_the_same_bytes_wherever_and_whenever(tmp_path: Path) -> None:
    one, other = source(tmp_path / "one"), source(tmp_path / "other")
    for path in other.rglob("*"):
        os.utime(path, (time.time() - 1e6, time.time() - 1e6))
    (other / "content" / "index.html").chmod(0o600)
    first, second = build(one, tmp_path / "1.tapp"), build(other, tmp_path / "2.tapp")
    assert first.sha256 == second.sha256
    with zipfile.ZipFile(tmp_path / "1.tapp") as archive:
        assert sorted(archive.namelist()) == ["app.yaml", "content/css/a.css", "content/index.html"]


def test_a_source_that_cannot_be_built_leaves_no_file_behind(tmp_path: Path) -> None:
    folder = source(tmp_path / "app")
    (folder / "notes.txt").write_text("private")
    with pytest.raises(Invalid, match=r"notes.txt: does not belong"):
        build(folder, tmp_path / "p.tapp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app"]


def test_a_source_of_endless_folders_is_refused(tmp_path: Path) -> None:
    folder = source(tmp_path / "app")
    deep = folder.joinpath("content", *("d" * 40))
    deep.mkdir(parents=True)
    (deep / "a").write_text("x")
    with pytest.raises(Invalid, match="is nested deeper than 32 folders"):
        build(folder, tmp_path / "p.tapp")


def test_a_link_in_a_source_is_refused(tmp_path: Path) -> None:
    folder = source(tmp_path / "app")
    (folder / "content" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(Invalid, match=r"content/passwd: is a link"):
        build(folder, tmp_path / "p.tapp")


def column(**fields: object) -> dict[str, object]:
    id_ = {"name": "id", "type": "integer"}
    return {"tables": [{"name": "t", "primaryKey": ["id"], "columns": [id_, {"name": "c", "type": "text", **fields}]}]}


def table(**fields: object) -> dict[str, object]:
    return {"tables": [{**CONTACTS, **fields}]}


WRONG = {
    "no apiVersion": (manifest(apiVersion=None), "app.yaml:1: apiVersion: "),
    "another apiVersion": (manifest(apiVersion="v2"), "app.yaml:1: apiVersion: "),
    "an id in capitals": (manifest(id="CRM"), "app.yaml:1: id: "),
    "a version that is a number": (manifest(version=1.1), "app.yaml:1: version: "),
    "a version with a slash": (manifest(version="1/1"), "app.yaml:1: version: "),
    "a version with a line break": (manifest(version="1.0\n"), "app.yaml:1: version: "),
    "an unknown field": (manifest(colour="red"), "app.yaml:1: colour: "),
    "an unknown field of a column": (manifest(**column(colour="red")), "app.yaml:1: tables[0].columns[1].colour: "),
    "an unknown type": (manifest(**column(type="money")), "app.yaml:1: tables[0].columns[1].type: "),
    "a typing error in a type": (manifest(**column(type="strng")), "blob or uuid; did you mean string?"),
    "a flag that is text": (manifest(**column(nullable="no")), "app.yaml:1: tables[0].columns[1].nullable: "),
    "a length that is text": (manifest(**column(type="string", length="9")), "app.yaml:1: tables[0].columns[1].length: "),
    "a string without a length": (manifest(**column(type="string")), "needs a length"),
    "a decimal without precision": (manifest(**column(type="decimal")), "needs a precision"),
    "more scale than precision": (manifest(**column(type="decimal", precision=2, scale=3)), "scale"),
    "a generated text": (manifest(**column(generated=True)), "can be generated"),
    "a default that is a list": (manifest(**column(default=[1])), "default must be a literal"),
    "a number's default that is a word": (manifest(**column(type="integer", default="one")), "must be a whole number"),
    "a default too large": (manifest(**column(type="integer", default=2**31)), "must be a whole number of at most 2147483647"),
    "a default too long": (manifest(**column(type="string", length=2, default="abc")), "a string of at most 2 characters"),
    "now in a text": (manifest(**column(default="now")), "not now or uuid"),
    "a day that is none": (manifest(**column(type="date", default="2026-02-30")), "now, or a quoted ISO 8601 string"),
    "JSON that is none": (manifest(**column(type="json", default="{")), "a string that holds JSON"),
    "a fixed uuid": (manifest(**column(type="uuid", default="1")), "must be uuid"),
    "bytes by default": (manifest(**column(type="blob", default="x")), "must be absent"),
    "an endless default": (b'{"tables": [{"columns": [{"name": "d", "type": "double", "default": .inf}]}]}', "finite number"),
    "a name that is SQL": (manifest(**column(name='c"; DROP TABLE t')), "app.yaml:1: tables[0].columns[1].name: "),
    "a column twice": (manifest(**table(columns=[{"name": "id", "type": "integer"}, {"name": "ID", "type": "text"}])), "twice"),
    "no primary key": (manifest(**table(primaryKey=[])), "app.yaml:1: tables[0].primaryKey: "),
    "a key that is no column": (manifest(**table(primaryKey=["no"])), "no column no"),
    "a table twice": (manifest(tables=[CONTACTS, {**CONTACTS, "name": "CONTACTS"}]), "declared twice"),
    "a reference to nothing": (
        manifest(**table(foreignKeys=[{"columns": ["id"], "references": "no", "to": ["id"]}])),
        "references no, which is not declared",
    ),
    "a reference to what is not unique": (
        manifest(**table(foreignKeys=[{"columns": ["id"], "references": "contacts", "to": ["email"]}])),
        "which is neither its primary key nor unique",
    ),
    "a reference that nulls a key": (
        manifest(**table(foreignKeys=[{"columns": ["id"], "references": "contacts", "to": ["id"], "onDelete": "setNull"}])),
        "setNull needs nullable columns",
    ),
    "a key in other letters": (manifest(**table(primaryKey=["ID"])), "no column ID"),
    "a key with a column twice": (manifest(**table(unique=[["id", "id"]])), "names column id twice"),
    "an index twice": (manifest(**table(indexes=[{"columns": ["id"]}, {"columns": ["id"]}])), "index (id) is declared twice"),
    "a column renamed from one that stays": (manifest(**column(renamedFrom="id")), "column id is declared still"),
    "a check that leads out": (manifest(**table(checks=[{"name": "c", "expression": "1) , evil TEXT CHECK (1"}])), "expression"),
    "two statements in a check": (manifest(**table(checks=[{"name": "c", "expression": "1; DROP TABLE x"}])), "expression"),
    "a role over no table": (manifest(roles={"editor": {"no": ["read"]}}), "roles.editor: no table no"),
    "an unknown grant": (manifest(**table(), roles={"editor": {"contacts": ["own"]}}), "app.yaml:1: roles.editor.contacts[0]: "),
    "a default role that is none": (manifest(defaultRole="reader"), "defaultRole: no role reader"),
    "a list": (b"- 1", "must be a mapping"),
    "nothing": (b"", "must be a mapping"),
    "an alias bomb": (b"a: &a [1]\nb: *a\n", "aliases are not allowed"),
    "endless nesting": (b"[" * 100_000, "nested"),
    "a key twice": (b"id: crm\nid: other\n", "app.yaml:2: is not YAML: id appears twice in this mapping"),
    "a Python object": (b"!!python/object/apply:os.system ['true']", "is not YAML"),
    "bytes that are no text": (b"\xff\xfe\xfa", "is not YAML"),
}


@pytest.mark.parametrize(("content", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_manifest_is_refused_by_its_field(content: bytes, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_manifest(content)
    assert told in str(refused.value)


def test_an_expression_may_hold_quoted_marks(tmp_path: Path) -> None:
    checks = [{"name": "c", "expression": "email LIKE '%;)--%' AND (length(email) > 3)"}]
    assert parse_manifest(manifest(**table(checks=checks))).tables[0].checks[0].name == "c"


def test_a_seed_line_too_long_to_hold_is_refused(tmp_path: Path) -> None:
    package = write_zip(
        tmp_path / "long.tapp",
        {"app.yaml": manifest(tables=[CONTACTS]), "seed/contacts.ndjson": b"\n" + b"x" * (LONGEST_LINE + 1)},
        zipfile.ZIP_STORED,
    )
    with pytest.raises(Invalid, match=r"seed/contacts\.ndjson: has a line of more than"), open_package(package):
        raise AssertionError("it was opened")


NOTES = {
    "name": "notes",
    "primaryKey": ["id"],
    "columns": [
        {"name": "id", "type": "integer", "generated": True},
        {"name": "text", "type": "string", "length": 5, "nullable": False},
        {"name": "due", "type": "date"},
    ],
}
SEEDS_THAT_FAIL = {
    "no JSON": (b'{"text": "a"}\n{"text', "seed/notes.ndjson:2: does not fit"),
    "no such column": (b'{"text": "a", "colour": "red"}', "notes.ndjson:1: does not fit the table: no column 'colour'"),
    "too long": (b'\n{"text": "abcdef"}', "notes.ndjson:2: does not fit the table: column text must be a string of at most"),
    "another type": (
        b'{"text": 5}',
        "notes.ndjson:1: does not fit the table: column text must be a string of at most 5 characters, not 5",
    ),
    "no date": (
        b'{"text": "a", "due": "soon"}',
        'notes.ndjson:1: does not fit the table: column due must be a date such as 2026-01-31, not "soon"',
    ),
    "no object": (b"[1]", 'notes.ndjson:1: does not fit the table: the line must be one JSON object, such as {"Name": "Rock"}'),
    "a value that is missing": (b'{"due": null}', "notes.ndjson:1: does not fit the table: column text must have a value"),
    "a null": (b'{"text": "a"}\n{"text": null}', "notes.ndjson:2: does not fit the table: column text must have a value"),
}


@pytest.mark.parametrize(("seed", "reason"), SEEDS_THAT_FAIL.values(), ids=SEEDS_THAT_FAIL)
def test_a_seed_that_an_installation_would_refuse_is_refused_at_build(tmp_path: Path, seed: bytes, reason: str) -> None:
    (tmp_path / "src" / "seed").mkdir(parents=True)
    (tmp_path / "src" / "app.yaml").write_bytes(manifest(tables=[NOTES]))
    (tmp_path / "src" / "seed" / "notes.ndjson").write_bytes(seed)
    with pytest.raises(Invalid, match=re.escape(reason)):
        build(tmp_path / "src", tmp_path / "notes.tapp")
    assert not (tmp_path / "notes.tapp").exists()


def test_seeds_beyond_the_bound_are_left_to_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "CHECKED", 20)
    seed = b'{"text": "a"}\n' * 2 + b"no JSON"
    with open_package(write_package(tmp_path / "p.tapp", {"seed/notes.ndjson": seed}, tables=[NOTES])) as opened:
        assert opened.seeds() == {"notes": "seed/notes.ndjson"}


def test_a_manifest_is_read_in_a_time_that_grows_with_its_size_alone() -> None:
    """Each of these took seconds at a tenth of the size."""
    columns = [{"name": f"c{n}", "type": "integer"} for n in range(100)]
    keys = [{"columns": [f"c{n}"], "references": "t0", "to": [f"c{n}"]} for n in range(100)]
    wide = {"primaryKey": ["c0"], "columns": columns, "unique": [[f"c{n}"] for n in range(100)], "foreignKeys": keys}
    assert len(parse_manifest(manifest(tables=[{"name": f"t{n}", **wide} for n in range(10)])).tables) == 10
    with pytest.raises(Invalid, match=r"app.yaml:4: is not YAML: '1:1:1:.* cannot be read as a value of type int"):
        parse_manifest(b"apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nversion: " + b"1:" * 300_000 + b"1\n")
