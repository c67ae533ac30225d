"""Archives that are read: signature and digests first, and each digest again when its member is used."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

import orjson
import yaml

from tenantry.adapters.age import decrypt, is_encrypted
from tenantry.adapters.local.archives import (
    ABOUT,
    DATABASE,
    ENGINE,
    FORMAT,
    RESOURCES,
    ROWS,
    ROWS_MOMENT,
    SQLITE,
    UNSIGNED,
    private,
)
from tenantry.adapters.local.members import MANIFEST, SIGNATURE
from tenantry.adapters.local.signing import holds
from tenantry.engine.logical.moments import CHANGED
from tenantry.kinds.registry import CONTENTS
from tenantry.model.facts import Backup, EngineRef, Trust
from tenantry.model.resource import Document, parse_time
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.yaml_depth import deep_line
from tenantry.rest.disk import make_durable

LARGEST_TEXT = 16 << 20
"""Bytes of what is parsed of an archive."""
LARGEST_MANIFEST = 64 << 20
DEEPEST = 64
"""Folders of a member's name at most; a package of ours has fewer."""
MOST_LEVELS = 128
"""Levels of declared YAML; PyYAML's own loader recurses, and a Source declares at most half of them."""
WITHOUT_DIGESTS = 1
"""The format of archives that have no digests. Those of the next one have digests, and no signature."""
NO_TAR = "is not a backup: it is not a tar archive, or it is cut short"
_BLOCK = 1 << 20
_TOLD = (ABOUT, RESOURCES, MANIFEST, SIGNATURE)


@dataclass(frozen=True)
class Checked:
    """An archive that may be restored: its members are those that were written. digests: None if it has none.

    signer: the public key of who signed it, `""` for nobody. trusted: it was signed by a key that is trusted here.
    names: of all members; each look at an archive reads all of it.
    """

    path: Path
    about: Mapping[str, Any]
    digests: Mapping[str, str] | None
    signer: str = ""
    trusted: bool = False
    names: frozenset[str] = frozenset()

    @property
    def database(self) -> str:
        """The kind of the engine's database: sqlite or postgresql."""
        return str(self.about.get("database", SQLITE))


@contextmanager
def in_clear(path: Path, identity: Path | None, scratch: Path) -> Iterator[Path]:
    """The archive, for this block decrypted in the scratch folder if it is encrypted. Blocks. Raises Invalid, OSError."""
    if identity is None or not is_encrypted(path):
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="restore-", suffix=".tar") as plain:
        decrypt(path, cast(BinaryIO, plain), identity)
        plain.flush()
        yield Path(plain.name)


def check(path: Path, trust: Trust) -> Checked:
    """Compares every member with its digest, and the signature of these with the trusted keys, before anything is written.

    Blocks. Raises Invalid, OSError.
    """
    with _opened(path) as (tar, about):
        names = frozenset(tar.getnames())
        if about["format"] == WITHOUT_DIGESTS:
            _check_trust(path, trust, "comes from a release that wrote no digests: damage cannot be detected")
            return Checked(path, about, None, names=names)
        manifest = _manifest(path, tar)
        signer = _signer(path, tar, manifest) if about["format"] != UNSIGNED else ""
        if not signer:
            _check_trust(path, trust, "comes from a release that did not sign backups")
        elif signer not in trust.keys:
            told = f"is signed by {signer}, which is not trusted here: if `tenantry backup` gave you this key, --trust {signer}"
            _check_trust(path, trust, told)
        digests = _digests(path, manifest)
        _compare(path, tar, digests)
    return Checked(path, about, digests, signer, signer in trust.keys, names)


def holds_rows(archive: Checked) -> bool:
    """Return True if the archive holds a logical copy of the engine's tables. Raises Invalid."""
    rows = any(name.startswith(f"{DATABASE}/") for name in archive.names)
    if rows and archive.database == SQLITE:
        raise _refused(archive.path, f"is broken: it says that its database is {SQLITE}, and holds rows of another kind")
    return rows


def holds_changes(archive: Checked) -> bool:
    """Return True if the archive holds only the rows on a server that changed since another one."""
    return any(name.startswith(f"{DATABASE}/{CHANGED}") for name in archive.names)


def extract_rows(archive: Checked, folder: Path) -> bool:
    """Write the rows that changed in a file, and their moment, to a folder. Return False if the archive has none.

    Blocks. Raises Invalid, OSError.
    """
    found = [name for name in (ROWS, ROWS_MOMENT) if name in archive.names]
    if not found:
        return False
    with _opened(archive.path) as (tar, _):
        for name in found:
            with (folder / PurePosixPath(name).name).open("wb") as out:
                shutil.copyfileobj(_member(tar, name, archive.path, archive.digests), out)
    return True


def read(archive: Path | Checked) -> Backup:
    """Return the description in the archive of an environment, checked or not. Blocks. Raises Invalid, OSError."""
    path, digests = (archive.path, archive.digests) if isinstance(archive, Checked) else (archive, None)
    try:
        with _opened(path) as (tar, about):
            documents = _declared(path, _text(tar, RESOURCES, path, digests))
            ref = EngineRef(str(about["namespace"]), str(about["name"]), str(about["id"]))
            signer = _told_signer(tar)
            backup = Backup(ref, parse_time(about["takenAt"]), documents, str(about.get("database", SQLITE)), signer)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _refused(path, f"is not a backup: {_first_line(error)}") from error
    kinds = [each.get("kind") if isinstance(each, dict) else None for each in documents]
    if kinds[:1] != ["Environment"] or not {*kinds} <= {"Environment", *CONTENTS}:
        raise _refused(path, f"is not a backup: {RESOURCES} must hold an Environment and its contents")
    return backup


def _declared(path: Path, text: bytes) -> tuple[Document, ...]:
    if line := deep_line(text, MOST_LEVELS):
        raise _refused(path, f"{RESOURCES}:{line} is nested deeper than {MOST_LEVELS} levels")
    return tuple(yaml.safe_load_all(text))


@contextmanager
def members(archive: Checked) -> Iterator[Callable[[str], BinaryIO]]:
    """Reads members of the logical copy, by name, KeyError where there is none. Raises Invalid, OSError."""
    with _opened(archive.path) as (tar, _):
        yield lambda name: _member(tar, f"{DATABASE}/{name}", archive.path, archive.digests)


def unpack(archive: Checked, folder: Path, *, database: str = SQLITE) -> None:
    """Unpacks the engine's files into a folder, which it makes; all are durable on return. Blocks. Raises Invalid, OSError.

    database: of what kind it is to be; with postgresql the archive may hold a logical copy, or rows, which are not unpacked.
    """
    folder.mkdir(mode=0o700)
    try:
        with tarfile.open(archive.path) as tar:
            for member in tar:
                beside = database != SQLITE and (member.name.startswith(f"{DATABASE}/") or member.name in (ROWS, ROWS_MOMENT))
                if not beside and member.name not in _TOLD:
                    _unpack(archive, tar, member, folder)
    except tarfile.TarError as error:
        raise _refused(archive.path, f"is broken: {error}") from error
    for inner in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        make_durable(inner)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[tarfile.TarFile, Mapping[str, Any]]]:
    """A whole archive, and its description. Raises Invalid, OSError."""
    if is_encrypted(path):
        raise _refused(path, "is encrypted by age: name the file of its key with --identity")
    try:
        tar = tarfile.open(path)  # noqa: SIM115 - closed below
    except tarfile.TarError as error:
        raise _refused(path, NO_TAR) from error
    try:
        with tar:
            yield tar, _said(path, tar)
    except tarfile.TarError as error:
        raise _refused(path, f"is not a backup: {_first_line(error)}") from error


def _said(path: Path, tar: tarfile.TarFile) -> Mapping[str, Any]:
    try:
        about: Mapping[str, Any] = orjson.loads(_text(tar, ABOUT, path, None))
        format_ = about["format"]
    except (KeyError, TypeError, ValueError) as error:
        raise _refused(path, f"is not a backup: {_first_line(error)}") from error
    if format_ not in (WITHOUT_DIGESTS, UNSIGNED, FORMAT):
        raise _refused(path, f"format {format_} is not known to this release")
    if not _ends(tar):
        raise _refused(path, "is broken: its end is missing")
    names = tar.getnames()
    if len(names) != len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise _refused(path, f"{twice[:100]!r} appears in it twice")
    return about


def _check_trust(path: Path, trust: Trust, reason: str) -> None:
    if not trust.unprotected:
        raise _refused(path, f"{reason}; --unprotected accepts it although nothing vouches for its content")


def _manifest(path: Path, tar: tarfile.TarFile) -> bytes:
    try:
        return _member(tar, MANIFEST, path, None).read(LARGEST_MANIFEST)
    except KeyError as error:
        raise _refused(path, f"{MANIFEST}: is broken: it is missing, or not what was written") from error


def _digests(path: Path, manifest: bytes) -> dict[str, str]:
    try:
        digests = orjson.loads(manifest)
    except ValueError:
        digests = None
    if not isinstance(digests, dict):
        raise _refused(path, f"{MANIFEST}: is broken: it is not what was written")
    return digests


def _signer(path: Path, tar: tarfile.TarFile, manifest: bytes) -> str:
    """The public key that signed the manifest. Raises Invalid unless one did."""
    try:
        told = orjson.loads(_text(tar, SIGNATURE, path, None))
        key, signature = str(told["key"]), str(told["signature"])
    except (KeyError, TypeError, ValueError) as error:
        raise _refused(path, f"{SIGNATURE}: is broken: it is missing, or not what was written") from error
    if not holds(key, signature, manifest):
        raise _refused(path, f"{MANIFEST}: is broken: {key[:60]} did not sign it")
    return key


def _told_signer(tar: tarfile.TarFile) -> str:
    """Return the signer that the archive names, unchecked."""
    if SIGNATURE not in tar.getnames():
        return ""
    return str(orjson.loads(_text(tar, SIGNATURE, Path(), None))["key"])


def _compare(path: Path, tar: tarfile.TarFile, digests: Mapping[str, str]) -> None:
    """Read the whole member."""
    left = set(digests)
    for member in tar.getmembers():
        if member.name in (MANIFEST, SIGNATURE):
            continue
        try:
            source = _content(tar, member, path, digests)
        except KeyError as error:
            raise _changed(path, member.name) from error
        while source.read(_BLOCK):
            pass
        left.discard(member.name)
    if left:
        raise _refused(path, f"{min(left)[:100]}: is broken: it is missing")


def _text(tar: tarfile.TarFile, name: str, path: Path, digests: Mapping[str, str] | None) -> bytes:
    if name not in tar.getnames():
        raise KeyError(f"it holds no {name}")
    if tar.getmember(name).size > LARGEST_TEXT:
        raise ValueError(f"{name} is not a file of at most {LARGEST_TEXT} bytes")
    return _member(tar, name, path, digests).read()


def _member(tar: tarfile.TarFile, name: str, path: Path, digests: Mapping[str, str] | None) -> BinaryIO:
    """Raises KeyError; when all of it is read Invalid, unless it has its digest."""
    return _content(tar, tar.getmember(name), path, digests)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, digests: Mapping[str, str] | None) -> BinaryIO:
    file = tar.extractfile(member) if member.isreg() else None
    if file is None:
        raise KeyError(f"{member.name} is not a file")
    return cast(BinaryIO, file if digests is None else _Compared(file, digests.get(member.name, ""), path, member.name))


class _Compared:
    """A member that is read to its end, and compared with its digest there."""

    def __init__(self, source: IO[bytes], digest: str, path: Path, name: str) -> None:
        self._source, self._wanted = source, digest
        self._path, self._name = path, name
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Raises Invalid at the end."""
        block = self._source.read(size)
        self._digest.update(block)
        if (size < 0 or not block) and self._digest.hexdigest() != self._wanted:
            raise _changed(self._path, self._name)
        return block


def _ends(tar: tarfile.TarFile) -> bool:
    """Return True if the archive ends with its block of zeros: one that is cut between members looks complete otherwise."""
    tar.getmembers()
    file = cast(BinaryIO, tar.fileobj)
    file.seek(tar.offset)
    return file.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)


def _unpack(archive: Checked, tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path, parts = archive.path, PurePosixPath(member.name).parts
    if not member.isreg() or parts[0] != ENGINE or len(parts) < 2 or ".." in parts:
        raise _refused(path, f"{member.name[:100]!r} does not belong in a backup")
    if len(parts) > DEEPEST:
        raise _refused(path, f"{member.name[:100]!r} is nested deeper than {DEEPEST} folders")
    target = folder.joinpath(*parts[1:])
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(target, "xb", opener=private) as out:
        shutil.copyfileobj(_content(tar, member, path, archive.digests), out)
        out.flush()
        os.fsync(out.fileno())


def _changed(path: Path, name: str) -> Invalid:
    return _refused(path, f"{name[:100]}: is broken: it is not what was written")


def _refused(path: Path, reason: str) -> Invalid:
    return Invalid((Problem(str(path), reason),))


def _first_line(error: Exception) -> str:
    """Return the first line of an error, without the quotes of a KeyError."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return (text.splitlines() or [type(error).__name__])[0].rstrip(":")
