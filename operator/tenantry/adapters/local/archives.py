"""A backup as one tar file: what it is of, what was declared, and the engine's files, databases as consistent copies.

`backup.json`, `resources.yaml` (of an environment), `database/...` (a logical copy, of an engine on PostgreSQL), `engine/...`.
The last is `manifest.json`, the SHA-256 of each. The declarations hold no secret; the engine's files and its database do.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import orjson
import yaml

from tenantry.adapters.local.members import MANIFEST, MemberWriter, broken_member, scratch_folder
from tenantry.adapters.store.state_folder import PASSWORD_FILE
from tenantry.engine.ownership import ID_FILE
from tenantry.engine.records import OWNER
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document, format_time, parse_time, ref_of
from tenantry.model.verdicts import Halt, Invalid, Problem, Transient
from tenantry.rest.disk import make_durable
from tenantry.rest.yaml_depth import deep_line

FORMAT = 2
UNPROTECTED = 1
"""The format of archives without digests."""
ABOUT = "backup.json"
RESOURCES = "resources.yaml"
ENGINE = "engine"
DATABASE = "database"
SQLITE = "sqlite"
POSTGRESQL = "postgresql"
LARGEST_TEXT = 16 << 20
"""Bytes of what is parsed of an archive."""
ATTEMPTS = 5
DEEPEST = 64
"""Folders of a member's name at most; a package of ours has fewer."""
MOST_LEVELS = 128
"""Levels of what is declared; PyYAML's own loader recurses, and what a Source declares has half of them at most."""
_MAGIC = b"SQLite format 3\x00"
_LIVE = ("-wal", "-shm", "-journal", ".tmp", ".part")
OF_THE_PLACE = ("lock", "incoming", "lost+found", ID_FILE, PASSWORD_FILE)
"""What a folder holds beside an engine: for the process that serves it, the file system, its database and its `admin`."""
Members = Callable[[Path], Generator[str]]
"""Writes one member of the logical copy of a database after the other to that file, and tells its name."""


@dataclass(frozen=True)
class Backup:
    """What an archive says of itself. documents: the Environment comes first; database: sqlite or postgresql."""

    ref: EngineRef
    taken: datetime
    documents: tuple[Document, ...]
    database: str = SQLITE


class _Moved(Exception):  # noqa: N818 - it ends an attempt
    """A file went away while the engine's files were copied."""


def write(backup: Backup, folder: Path, target: Path) -> None:
    """Writes an archive of the engine's folder by one rename; it is durable on return. Blocks. Raises OSError, sqlite3.Error,
    and a Transient Halt when the files do not stand still for the moment that it takes to list them."""
    pack({ABOUT: _about(backup), RESOURCES: to_yaml(backup.documents)}, folder, target)


def pack(texts: Mapping[str, bytes], folder: Path, target: Path, database: Members | None = None) -> None:
    """The same with those texts before it, and with the copy of a database that is not in the folder."""
    with appearing(target) as unfinished:
        for _ in range(ATTEMPTS):
            try:
                with _durable(unfinished) as file, tarfile.open(fileobj=file, mode="w") as tar:
                    _write(texts, folder, tar, unfinished.parent / "database", database)
            except _Moved:
                continue
            return
        raise _busy(folder)


def stream(texts: Mapping[str, bytes], folder: Path, out: BinaryIO, scratch: Path, database: Members | None = None) -> None:
    """The same to a pipe. What was written before it raised is no archive, and does not look like one: its end is missing.

    scratch: a folder with room for the largest database or table once more.
    """
    with scratch_folder(scratch) as inner:
        tar = tarfile.open(fileobj=out, mode="w|")  # noqa: SIM115 - closed, it would get its end though it is none
        try:
            _write(texts, folder, tar, inner / "database", database)
        except _Moved as error:
            raise _busy(folder) from error
        tar.close()


def complete(engine: Path, ref: EngineRef, documents: Sequence[Document], target: Path) -> None:
    """Makes an engine's archive that of its environment, by one rename; it is durable on return. Blocks.

    Raises Invalid, OSError."""
    check(engine, unprotected=True)  # an engine of the release before has just written it
    with appearing(target) as unfinished, _opened(engine) as (source, about), _durable(unfinished) as file:
        taken, database = parse_time(about["takenAt"]), str(about.get("database", SQLITE))
        with tarfile.open(fileobj=file, mode="w") as tar:
            writer = MemberWriter(tar)
            writer.text(ABOUT, _about(Backup(ref, taken, (), database)))
            writer.text(RESOURCES, to_yaml(documents))
            for member in source:
                if member.name not in (ABOUT, RESOURCES, MANIFEST):
                    writer.member(member, _member(source, member.name))
            writer.end()


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A file, in a folder of its own beside the target, which becomes the target by one rename when the block ends well."""
    with scratch_folder(target.parent) as scratch:
        unfinished = scratch / "archive.tar"
        yield unfinished
        unfinished.rename(target)
        make_durable(target.parent)


def check(path: Path, *, unprotected: bool = False) -> None:
    """Compares every member with its digest, before anything is written. Blocks. Raises Invalid, OSError.

    unprotected: an archive of a release that wrote no digests is taken as it is.
    """
    with _opened(path) as (tar, about):
        if about["format"] == UNPROTECTED:
            if not unprotected:
                raise _refused(path, "is of a release that wrote no digests: a damaged one is not noticed; use --unprotected")
            return
        reason = broken_member(tar)
    if reason:
        raise _refused(path, reason)


def protected(path: Path, target: Path) -> None:
    """Writes an archive without digests anew, with those of what it holds now. Blocks. Raises Invalid, OSError."""
    with _opened(path) as (source, about), _durable(target) as file, tarfile.open(fileobj=file, mode="w") as tar:
        writer = MemberWriter(tar)
        for member in source:
            if member.name == ABOUT:
                writer.text(ABOUT, orjson.dumps({**about, "format": FORMAT}, option=orjson.OPT_INDENT_2))
            elif member.name != MANIFEST:
                writer.member(member, _member(source, member.name))
        writer.end()


def read(path: Path) -> Backup:
    """What the archive says of itself. Blocks. Raises Invalid for what is no archive of ours, OSError."""
    try:
        with _opened(path) as (tar, about):
            documents = _declared(path, _text(tar, RESOURCES))
            ref = EngineRef(str(about["namespace"]), str(about["name"]), str(about["id"]))
            backup = Backup(ref, parse_time(about["takenAt"]), documents, str(about.get("database", SQLITE)))
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _refused(path, f"is no backup: {_first_line(error)}") from error
    kinds = [each.get("kind") if isinstance(each, dict) else None for each in documents]
    if kinds[:1] != ["Environment"] or not {*kinds} <= {"Environment", "App", "Identity", "IdentityProvider"}:
        raise _refused(path, f"is no backup: {RESOURCES} must hold an Environment and its contents")
    return backup


def _declared(path: Path, text: bytes) -> tuple[Document, ...]:
    if line := deep_line(text, MOST_LEVELS):
        raise _refused(path, f"{RESOURCES}:{line} is nested deeper than {MOST_LEVELS} levels")
    return tuple(yaml.safe_load_all(text))


def database_of(path: Path) -> str:
    """Of what kind the engine's database was: sqlite or postgresql. Blocks. Raises Invalid, OSError."""
    with _opened(path) as (_, about):
        return str(about.get("database", SQLITE))


@contextmanager
def members(path: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """Reads members of the logical copy, by name, KeyError where there is none. Raises Invalid, OSError."""
    with _opened(path) as (tar, _):
        yield lambda name: _member(tar, f"{DATABASE}/{name}")


def unpack(path: Path, folder: Path, *, database: str = SQLITE) -> None:
    """Unpacks the engine's files into a folder, which it makes; all are durable on return. Blocks. Raises Invalid, OSError.

    database: of what kind it is to be; with postgresql the archive may hold a logical copy, which is not unpacked.
    """
    folder.mkdir(mode=0o700)
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                beside = database != SQLITE and member.name.startswith(f"{DATABASE}/")
                if not beside and member.name not in (ABOUT, RESOURCES, MANIFEST):
                    _unpack(path, tar, member, folder)
    except tarfile.TarError as error:
        raise _refused(path, f"is broken: {error}") from error
    for inner in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        make_durable(inner)


def mark_of(backup: Backup) -> str:
    """`<environment id>@<when it was taken>`: no two archives have the same."""
    return f"{backup.ref.id}@{format_time(backup.taken)}"


def joined(documents: Sequence[Document], earlier: Sequence[Document]) -> tuple[Document, ...]:
    """What is declared, and of what was remembered the rest: an interrupted deletion has removed some of it."""
    now = {ref_of(each): each for each in documents}
    return (*now.values(), *(each for each in earlier if ref_of(each) not in now))


def to_yaml(documents: Sequence[Document]) -> bytes:
    """Documents as they are kept."""
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, encoding="utf-8")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[tarfile.TarFile, Mapping[str, Any]]]:
    """A whole archive, and what it says of itself. Raises Invalid, OSError."""
    try:
        with tarfile.open(path) as tar:
            yield tar, _said(path, tar)
    except tarfile.TarError as error:
        raise _refused(path, f"is no backup: {_first_line(error)}") from error


def _said(path: Path, tar: tarfile.TarFile) -> Mapping[str, Any]:
    try:
        about: Mapping[str, Any] = orjson.loads(_text(tar, ABOUT))
        format_ = about["format"]
    except (KeyError, TypeError, ValueError) as error:
        raise _refused(path, f"is no backup: {_first_line(error)}") from error
    if format_ not in (UNPROTECTED, FORMAT):
        raise _refused(path, f"format {format_} is not known to this release")
    if not _ends(tar):
        raise _refused(path, "is broken: its end is missing")
    names = tar.getnames()
    if len(names) != len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise _refused(path, f"{twice[:100]!r} is in it twice")
    return about


def _write(texts: Mapping[str, bytes], folder: Path, tar: tarfile.TarFile, copy: Path, database: Members | None) -> None:
    writer = MemberWriter(tar)
    for name, content in texts.items():
        writer.text(name, content)
    _add_engine(writer, folder, copy, database)
    writer.end()


@contextmanager
def _durable(path: Path) -> Iterator[BinaryIO]:
    """The file for its owner alone, anew; durable when the block ends well."""
    with open(path, "wb", opener=_private) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _busy(folder: Path) -> Halt:
    return Halt(Transient("EngineBusy", f"the files of the engine in {folder} change all the time; try again"))


def _add_engine(writer: MemberWriter, folder: Path, copy: Path, database: Members | None) -> None:
    """The databases first: their records name files, which are there before the record is, and go after it.

    So it is whole unless a file went in between. Raises _Moved then.
    """
    before = set(_files(folder))
    if database is not None:
        with closing(database(copy)) as names:
            for name in names:
                writer.file(copy, f"{DATABASE}/{name}")
    databases = [path for path in sorted(before) if path.parent == folder and _is_database(path)]
    for path in databases:
        copy.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            # What is restored is the database of the engine that starts with it.
            target.execute(f"DROP TABLE IF EXISTS {OWNER.name}")
        writer.file(copy, _inside(path, folder))
    copied = set(_files(folder))
    for path in sorted(copied.difference(databases)):
        try:
            writer.file(path, _inside(path, folder))
        except FileNotFoundError as error:
            raise _Moved from error
    if (before | copied) - set(_files(folder)):
        raise _Moved


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        # Deeper are the apps' own files, whatever their names.
        hidden = parts[0] in OF_THE_PLACE or any(part.endswith(_LIVE) for part in parts[:2])
        if not hidden and path.is_file() and not path.is_symlink():
            yield path


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except FileNotFoundError as error:
        raise _Moved from error


def _inside(path: Path, folder: Path) -> str:
    return f"{ENGINE}/{path.relative_to(folder).as_posix()}"


def _about(backup: Backup) -> bytes:
    ref = backup.ref
    about = {"format": FORMAT, "id": ref.id, "namespace": ref.namespace, "name": ref.name}
    about |= {"takenAt": format_time(backup.taken), "database": backup.database}
    return orjson.dumps(about, option=orjson.OPT_INDENT_2)


def _text(tar: tarfile.TarFile, name: str) -> bytes:
    if tar.getmember(name).size > LARGEST_TEXT:
        raise ValueError(f"{name} is no file of at most {LARGEST_TEXT} bytes")
    return _member(tar, name).read()


def _member(tar: tarfile.TarFile, name: str) -> BinaryIO:
    file = tar.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is no file")
    return cast(BinaryIO, file)


def _ends(tar: tarfile.TarFile) -> bool:
    """Is the block of zeros there that ends an archive? One that is cut off between two members looks whole but for that."""
    tar.getmembers()
    file = cast(BinaryIO, tar.fileobj)
    file.seek(tar.offset)
    return file.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)


def _unpack(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    parts = PurePosixPath(member.name).parts
    source = tar.extractfile(member) if member.isreg() else None
    if source is None or parts[0] != ENGINE or len(parts) < 2 or ".." in parts:
        raise _refused(path, f"{member.name[:100]!r} has no place in a backup")
    if len(parts) > DEEPEST:
        raise _refused(path, f"{member.name[:100]!r} lies deeper than {DEEPEST} folders")
    target = folder.joinpath(*parts[1:])
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(target, "xb", opener=_private) as out:
        shutil.copyfileobj(source, out)
        out.flush()
        os.fsync(out.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _refused(path: Path, reason: str) -> Invalid:
    return Invalid((Problem(str(path), reason),))


def _first_line(error: Exception) -> str:
    """tarfile tells of each compression that it tried in a line of its own."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
