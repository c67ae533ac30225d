"""An engine's archive out of a pipe, made that of its environment on the way: nothing of it is kept in between."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO, cast

import orjson

from tenantry.adapters.local.archives import ABOUT, RESOURCES, SQLITE, Packing, about_of, durable, to_yaml, writing
from tenantry.adapters.local.members import MANIFEST, SIGNATURE
from tenantry.adapters.local.reading import LARGEST_MANIFEST, LARGEST_TEXT, WITHOUT_DIGESTS
from tenantry.model.facts import Backup, EngineRef
from tenantry.model.resource import Document, parse_time
from tenantry.model.verdicts import Invalid, Problem


def complete(engine: BinaryIO, ref: EngineRef, documents: Sequence[Document], target: Path, packing: Packing) -> Backup:
    """Writes the archive of an environment, durably. Blocks. Raises Invalid (no archive, or not what its writer read), OSError.

    The engine's own signature is not looked at: its archive comes from its own pod. The first release wrote no digests, and
    earlier ones leave no key out.
    """
    try:
        with tarfile.open(fileobj=engine, mode="r|") as source:
            return _complete(source, ref, documents, target, packing)
    except (tarfile.TarError, LookupError, ValueError, TypeError) as error:
        raise _refused(f"is not a backup: {str(error).partition(chr(10))[0] or type(error).__name__}") from error


def _complete(source: tarfile.TarFile, ref: EngineRef, documents: Sequence[Document], target: Path, packing: Packing) -> Backup:
    first = source.next()
    if first is None or first.name != ABOUT:
        raise _refused(f"is not a backup: {ABOUT} does not come first")
    content = _file(source, first).read(LARGEST_TEXT)
    about = orjson.loads(content)
    backup = Backup(ref, parse_time(about["takenAt"]), tuple(documents), str(about.get("database", SQLITE)))
    manifest: Mapping[str, str] | None = None
    with durable(target) as file, writing(file, packing) as writer:
        writer.text(ABOUT, about_of(backup))
        writer.text(RESOURCES, to_yaml(documents))
        ours, left_out = {ABOUT, RESOURCES}, {}
        while (member := source.next()) is not None:
            if member.name == MANIFEST:
                manifest = orjson.loads(_file(source, member).read(LARGEST_MANIFEST))
            elif packing.leaves_out(member.name):
                left_out[member.name] = hashlib.file_digest(_file(source, member), "sha256").hexdigest()
            elif member.name != SIGNATURE:
                writer.member(member, _file(source, member))
        read = {name: digest for name, digest in writer.digests.items() if name not in ours} | left_out
        read[ABOUT] = hashlib.sha256(content).hexdigest()
        if about["format"] != WITHOUT_DIGESTS and manifest != read:
            raise _refused("is broken: it is not what was written")
    return backup


def _file(source: tarfile.TarFile, member: tarfile.TarInfo) -> BufferedReader:
    file: IO[bytes] | None = source.extractfile(member) if member.isreg() else None
    if file is None:
        raise _refused(f"{member.name[:100]!r} does not belong in a backup")
    return cast(BufferedReader, file)


def _refused(reason: str) -> Invalid:
    return Invalid((Problem("the archive of the engine", reason),))
