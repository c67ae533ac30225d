"""A backup as one tar file: what it is of, what was declared, and the engine's files, databases as consistent copies.

`backup.json`, `resources.yaml` (of an environment), `database/...` (a logical copy, of an engine on PostgreSQL), `engine/...`.
The last are `manifest.json`, the SHA-256 of each, and its signature. The declarations hold no secret; the engine's database does.
Its own keys are in an archive that is encrypted only.
"""

from __future__ import annotations

import os
import sqlite3
import tarfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson
import yaml
from pydantic import ValidationError

from tenantry.adapters.age import encrypted
from tenantry.adapters.local.members import MemberWriter, scratch_folder
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.moving.blocks import Blocks, write_changes
from tenantry.adapters.store.state_folder import PASSWORD_FILE
from tenantry.engine.logical.moments import FileMoment
from tenantry.engine.sealing import OWN_KEYS
from tenantry.engine.sql.files import BACKED_UP, FILE, ID_FILE
from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import Backup
from tenantry.model.resource import Document, format_time, ref_of
from tenantry.model.verdicts import Halt, Invalid, Problem, Transient, path_text
from tenantry.model.wording import reason_of
from tenantry.rest.disk import make_durable

FORMAT = 3
UNSIGNED = 2
"""The format of archives that have digests, and nobody signed them."""
ABOUT = "backup.json"
RESOURCES = "resources.yaml"
ENGINE = "engine"
DATABASE = "database"
SQLITE = "sqlite"
POSTGRESQL = "postgresql"
ROWS, ROWS_MOMENT = "rows/engine.db", "rows/moment.json"
"""Instead of the engine's database: a file with the rows that changed, and the moment of these. They are not beside the engine's
files, so an earlier release refuses the archive, and does not take it for one of an engine without a database."""
SENDS_ROWS = "sendsRows"
"""In the description of an engine that moves: its place can send the rows that changed in a file."""
ATTEMPTS = 5
CHANGES = f"{FILE}.changes.part"
"""Instead of the engine's database: its blocks that are not those of an earlier copy. No file of an engine has such a name."""
_LIVE = ("-wal", "-shm", "-journal", ".tmp", ".part")
OF_THE_PLACE = ("lock", "incoming", "lost+found", ID_FILE, PASSWORD_FILE, KEY_FILE, BACKED_UP)
"""Files beside those of the engine: of the process that serves it, the file system, its database, `admin`, and backups."""
_OWN_KEYS = frozenset(f"{ENGINE}/{name}" for name in OWN_KEYS)
Members = Callable[[Path], Generator[str]]
"""Write the members of a database's logical copy to that file, one after the other, and yield the name of each."""


class _Moved(Exception):  # noqa: N818 - it ends an attempt
    """A file went away while the engine's files were copied."""


class Packing(NamedTuple):
    """The keys of an archive: the one that signs it, and public keys of age that it is encrypted to; in clear for none.

    keys: in clear, it holds the engine's own keys all the same. earlier: of a copy of the database that the reader has, as a file
    or as rows; what differs from it is enough then.
    """

    key: ArchiveKey
    recipients: Sequence[str] = ()
    keys: bool = False
    earlier: Blocks | FileMoment | None = None

    def leaves_out(self, member: str) -> bool:
        """Return True for a key with which a reader of the archive could act as the engine."""
        return member in _OWN_KEYS and not (self.recipients or self.keys)


def write(backup: Backup, folder: Path, target: Path, packing: Packing, database: Members | None = None) -> None:
    """Writes an archive of the engine's folder by one rename; it is durable on return. Blocks. Raises Invalid (the keys),
    OSError, sqlite3.Error, and a Transient Halt when the files do not stand still for the moment that it takes to list them."""
    pack({ABOUT: about_of(backup), RESOURCES: to_yaml(backup.documents)}, folder, target, packing, database)


def pack(texts: Mapping[str, bytes], folder: Path, target: Path, packing: Packing, database: Members | None = None) -> None:
    """The same with those texts before it, and with the copy of a database that is not in the folder."""
    with appearing(target) as unfinished:
        for _ in range(ATTEMPTS):
            try:
                with durable(unfinished) as file:
                    _write(texts, folder, file, unfinished.parent / "database", packing, database)
            except _Moved:
                continue
            return
        raise _busy(folder)


def stream(
    texts: Mapping[str, bytes], folder: Path, out: BinaryIO, scratch: Path, packing: Packing, database: Members | None = None
) -> None:
    """The same to a pipe. What was written before it raised is no archive, and does not look like one: its end is missing.

    scratch: a folder with room for the largest database or table once more.
    """
    with scratch_folder(scratch) as inner:
        try:
            _write(texts, folder, out, inner / "database", packing, database)
        except _Moved as error:
            raise _busy(folder) from error


def mark_backed_up(folder: Path) -> None:
    """Note in an engine's folder that it was backed up now. A folder that cannot be written, such as a snapshot, has no mark."""
    with suppress(OSError):
        (folder / BACKED_UP).touch(mode=0o600)


@contextmanager
def writing(out: BinaryIO, packing: Packing) -> Iterator[MemberWriter]:
    """Writes an archive to a stream; signed and ended when the block ends well. Raises Invalid, OSError."""
    with encrypted(out, packing.recipients) as plain:
        tar = tarfile.open(fileobj=_Forward(plain), mode="w")  # type: ignore[call-overload]  # noqa: SIM115 - see below
        writer = MemberWriter(tar)
        yield writer
        writer.end(packing.key)
        tar.close()  # after an error the archive must not get its end: it is not complete then


class _Forward:
    """A stream that is only written; tarfile's own for pipes writes what it holds once more when it is collected."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._at = 0

    def tell(self) -> int:
        return self._at

    def write(self, block: bytes) -> int:
        self._out.write(block)
        self._at += len(block)
        return len(block)


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A file, in a folder of its own beside the target, which becomes the target by one rename when the block ends well."""
    with scratch_folder(target.parent) as scratch:
        unfinished = scratch / "archive.tar"
        yield unfinished
        unfinished.rename(target)
        make_durable(target.parent)


def mark_of(backup: Backup) -> str:
    """`<environment id>@<when it was taken>`: no two archives have the same."""
    return f"{backup.ref.id}@{format_time(backup.taken)}"


def environment_of(backup: Backup) -> Environment:
    """Return the archived Environment. Raises Invalid unless it is one."""
    try:
        return Environment.model_validate(backup.documents[0])
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        where = [".".join(map(str, (RESOURCES, *each["loc"]))) for each in found]
        raise Invalid(tuple(Problem(*each) for each in zip(where, map(reason_of, found), strict=True))) from error


def misfit(backup: Backup, *, pools: bool = False) -> str:
    """Return the reason that no engine of its Environment can take that archive, `""` if one can. Raises Invalid.

    pools: a pool may give engines databases on its server, which no Environment declares.
    """
    engine = environment_of(backup).spec.engine
    if engine.external is not None:
        return "its Environment has an external engine, and nothing is restored into those"
    wanted = SQLITE if engine.database is None else POSTGRESQL
    if wanted != backup.database and not (pools and engine.database is None):
        return f"is of an engine on {backup.database}, and its Environment declares one on {wanted}"
    return ""


def joined(documents: Sequence[Document], earlier: Sequence[Document]) -> tuple[Document, ...]:
    """Return the declarations, and the remembered ones that an interrupted deletion has removed."""
    now = {ref_of(each): each for each in documents}
    return (*now.values(), *(each for each in earlier if ref_of(each) not in now))


def to_yaml(documents: Sequence[Document]) -> bytes:
    """Documents as they are kept."""
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, encoding="utf-8")


def _write(
    texts: Mapping[str, bytes], folder: Path, out: BinaryIO, copy: Path, packing: Packing, database: Members | None
) -> None:
    with writing(out, packing) as writer:
        for name, content in texts.items():
            writer.text(name, content)
        _add_engine(writer, folder, copy, packing, database)


@contextmanager
def durable(path: Path) -> Iterator[BinaryIO]:
    """The file for its owner alone, anew; durable when the block ends well."""
    with open(path, "wb", opener=private) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _busy(folder: Path) -> Halt:
    return Halt(Transient("EngineBusy", f"the files of the engine in {path_text(folder)} keep changing; try again"))


def _add_engine(writer: MemberWriter, folder: Path, copy: Path, packing: Packing, database: Members | None) -> None:
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
        earlier = packing.earlier if path.name == FILE else None
        if not isinstance(earlier, FileMoment) or not _add_rows(writer, path, earlier, copy):
            _add_database(writer, path, copy, earlier)
    copied = set(_files(folder))
    for path in sorted(copied.difference(databases)):
        if packing.leaves_out(_inside(path, folder)):
            continue
        try:
            writer.file(path, _inside(path, folder))
        except FileNotFoundError as error:
            raise _Moved from error
    if (before | copied) - set(_files(folder)):
        raise _Moved


def _add_database(writer: MemberWriter, database: Path, copy: Path, earlier: Blocks | FileMoment | None) -> None:
    """Add a consistent copy of a file, or only the blocks that are not those of the earlier one."""
    from tenantry.engine.data.live.triggers import remove_log  # with SQLAlchemy: a platform starts without it
    from tenantry.engine.records import OWNER
    from tenantry.engine.sql.limits import bound

    copy.unlink(missing_ok=True)
    with closing(bound(sqlite3.connect(database))) as source, closing(bound(sqlite3.connect(copy))) as target:
        target.execute("PRAGMA synchronous = OFF")  # it is read once, by this process
        source.backup(target)
        # What is restored is the database of the engine that starts with it.
        target.execute(f"DROP TABLE IF EXISTS {OWNER.name}")
        remove_log(target)
    if isinstance(earlier, Blocks):
        changes = copy.with_name(CHANGES)
        write_changes(copy, earlier, changes)
        writer.file(changes, f"{ENGINE}/{CHANGES}")
    else:
        writer.file(copy, f"{ENGINE}/{database.name}")


def _add_rows(writer: MemberWriter, database: Path, earlier: FileMoment, copy: Path) -> bool:
    """Add the rows that changed since an earlier copy. Return False if the whole database is needed."""
    from tenantry.engine.porting.ways import write_rows

    copy.unlink(missing_ok=True)
    moment = write_rows(database, earlier, copy)
    if moment:
        writer.file(copy, ROWS)
        writer.text(ROWS_MOMENT, moment)
    return bool(moment)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        # Deeper are the apps' own files, whatever their names.
        hidden = parts[0] in OF_THE_PLACE or any(part.endswith(_LIVE) for part in parts[:2])
        if not hidden and path.is_file() and not path.is_symlink():
            yield path


def _is_database(path: Path) -> bool:
    # By SQLite: who closes another descriptor of a file that this process has open releases the locks of the process. Another
    # process would then take itself for the last one, and remove the write-ahead log, with what this one writes later.
    try:
        if not path.stat().st_size:
            return False
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute("PRAGMA schema_version")
    except FileNotFoundError as error:
        raise _Moved from error
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            return False
        if not path.exists():
            raise _Moved from error
        raise
    return True


def _inside(path: Path, folder: Path) -> str:
    return f"{ENGINE}/{path.relative_to(folder).as_posix()}"


def about_of(backup: Backup) -> bytes:
    """The content of backup.json."""
    ref = backup.ref
    about = {"format": FORMAT, "id": ref.id, "namespace": ref.namespace, "name": ref.name}
    about |= {"takenAt": format_time(backup.taken), "database": backup.database}
    return orjson.dumps(about, option=orjson.OPT_INDENT_2)


def private(path: str, flags: int) -> int:
    """Opens a file that is readable by its owner alone."""
    return os.open(path, flags, 0o600)
