"""Archives: whole while the engine writes, and refused where they are not ours."""

from __future__ import annotations

import io
import sqlite3
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
import yaml

from tenantry.adapters.local.archives import write as write_packed
from tenantry.adapters.local.members import MemberWriter, scratch_folder
from tenantry.adapters.local.reading import Checked, read, unpack
from tenantry.model.facts import Backup, EngineRef
from tenantry.model.verdicts import Halt, Invalid
from tests.scenario.archives import packing, taken
from tests.support.patience import DEADLINE_S

ENVIRONMENT = {"kind": "Environment", "metadata": {"name": "dev", "namespace": "tenant-acme"}, "spec": {"region": "eu"}}
BACKUP = Backup(EngineRef("tenant-acme", "dev", "e1"), datetime(2026, 1, 2, tzinfo=UTC), (ENVIRONMENT,))


def write(backup: Backup, folder: Path, target: Path) -> None:
    write_packed(backup, folder, target, packing())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "engine"
    (folder / "packages").mkdir(parents=True)
    (folder / "packages" / "a.tapp").write_bytes(b"zip")
    (folder / "packages" / ".b.part").write_bytes(b"half")
    return folder


def test_what_is_written_is_read_and_unpacked(folder: Path, tmp_path: Path) -> None:
    write(BACKUP, folder, tmp_path / "dev.tar")
    assert read(tmp_path / "dev.tar") == BACKUP
    unpack(taken(tmp_path / "dev.tar"), tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")] == ["packages/a.tapp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.tar", "engine", "out"]


@pytest.mark.parametrize("name", ["notes.part", "draft.tmp", "old-wal", "parts.part/a.txt", "lock", "sample.db"])
def test_an_app_s_own_files_are_kept_whatever_their_names(folder: Path, tmp_path: Path, name: str) -> None:
    content = Path("content") / ("a" * 64) / name
    (folder / content).parent.mkdir(parents=True)
    (folder / content).write_bytes(b"SQLite format 3\x00, or so it says")
    write(BACKUP, folder, tmp_path / "dev.tar")
    unpack(taken(tmp_path / "dev.tar"), tmp_path / "out")
    assert (tmp_path / "out" / content).read_bytes() == (folder / content).read_bytes()


def test_a_copy_of_a_database_that_is_written_all_the_time_is_one_moment_of_it(folder: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(folder / "data.db")) as database:
        database.executescript("PRAGMA journal_mode=WAL; CREATE TABLE a (x); CREATE TABLE b (x);")
    began, ended = threading.Event(), threading.Event()

    def pairs() -> None:
        with closing(sqlite3.connect(folder / "data.db", timeout=DEADLINE_S)) as database:
            while not ended.is_set():
                with database:
                    database.execute("INSERT INTO a VALUES (1)")
                    database.execute("INSERT INTO b VALUES (1)")
                began.set()

    writer = threading.Thread(target=pairs)
    writer.start()
    try:
        assert began.wait(DEADLINE_S)
        for number in range(5):
            write(BACKUP, folder, tmp_path / f"{number}.tar")
    finally:
        ended.set()
        writer.join()
    for number in range(5):
        unpack(taken(tmp_path / f"{number}.tar"), tmp_path / str(number))
        with closing(sqlite3.connect(tmp_path / str(number) / "data.db")) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            (in_a,), (in_b,) = (copy.execute(f"SELECT count(*) FROM {table}").fetchone() for table in "ab")
        assert in_a == in_b > 0


def test_a_file_that_goes_again_and_again_ends_the_backup_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = MemberWriter.file

    def losing(writer: MemberWriter, path: Path, name: str) -> None:
        path.unlink()
        (folder / "packages" / f"{name.count('x')}{path.stem}x.tapp").write_bytes(b"zip")
        whole(writer, path, name)

    monkeypatch.setattr(MemberWriter, "file", losing)
    with pytest.raises(Halt, match="keep changing"):
        write(BACKUP, folder, tmp_path / "dev.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]


def test_the_folder_of_a_killed_backup_is_removed_by_the_next_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".tenantry-backup-killed").mkdir()
    (tmp_path / ".tenantry-backup-killed" / "archive.tar").write_bytes(b"half")
    with scratch_folder(tmp_path) as running:
        write(BACKUP, folder, tmp_path / "dev.tar")
        assert running.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.tar", "engine"]


def about(**changed: object) -> bytes:
    whole = {"format": 1, "id": "e1", "namespace": "tenant-acme", "name": "dev", "takenAt": "2026-01-02T00:00:00Z"}
    return orjson.dumps(whole | changed)


RESOURCES = yaml.safe_dump(ENVIRONMENT).encode()
BROKEN: dict[str, tuple[dict[str, bytes], str]] = {
    "another format": ({"backup.json": about(format=4), "resources.yaml": RESOURCES}, "format 4 is not known"),
    "no declarations": ({"backup.json": about()}, "resources.yaml"),
    "no time": ({"backup.json": about(takenAt="soon"), "resources.yaml": RESOURCES}, "is not a backup: Invalid isoformat"),
    "no JSON": ({"backup.json": b"{", "resources.yaml": RESOURCES}, "is not a backup"),
    "no YAML": ({"backup.json": about(), "resources.yaml": b"{"}, "is not a backup"),
    "nothing declared": ({"backup.json": about(), "resources.yaml": b""}, "must hold an Environment"),
    "another kind": ({"backup.json": about(), "resources.yaml": RESOURCES + b"---\nkind: User\n"}, "must hold an Environment"),
}


@pytest.mark.parametrize("row", BROKEN.values(), ids=BROKEN)
def test_what_is_no_backup_is_refused(tmp_path: Path, row: tuple[dict[str, bytes], str]) -> None:
    members, reason = row

    def all_of_them(tar: tarfile.TarFile) -> None:
        for name, content in members.items():
            add(tar, name, content)

    path = archive(tmp_path, all_of_them)
    with pytest.raises(Invalid, match=reason):
        read(path)


def link(tar: tarfile.TarFile) -> None:
    info = tarfile.TarInfo("engine/link")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    tar.addfile(info)


HOSTILE: dict[str, Callable[[tarfile.TarFile], object]] = {
    "a step up": lambda tar: add(tar, "engine/../../x", b""),
    "an absolute path": lambda tar: add(tar, "/engine/x", b""),
    "another folder": lambda tar: add(tar, "other/x", b""),
    "a link": link,
}


@pytest.mark.parametrize("fill", HOSTILE.values(), ids=HOSTILE)
def test_what_has_no_place_in_an_engine_s_folder_is_not_unpacked(
    tmp_path: Path, fill: Callable[[tarfile.TarFile], object]
) -> None:
    path = archive(tmp_path, fill)
    with pytest.raises(Invalid, match="does not belong in a backup"):
        unpack(Checked(path, {}, None), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def archive(folder: Path, fill: Callable[[tarfile.TarFile], object]) -> Path:
    with tarfile.open(folder / "given.tar", "w") as tar:
        fill(tar)
    return folder / "given.tar"


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
