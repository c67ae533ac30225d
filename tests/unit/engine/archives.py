"""Packages for tests: good ones, and zip files that lie."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

CRM = {"apiVersion": "tenantry.dev/app/v1", "id": "crm", "name": "CRM", "author": "Example Ltd", "version": "1.0.0"}
CONTACTS = {
    "name": "contacts",
    "primaryKey": ["id"],
    "columns": [{"name": "id", "type": "integer", "generated": True}, {"name": "email", "type": "string", "length": 255}],
}


def manifest(**fields: object) -> bytes:
    """An app.yaml: that of a small CRM, with other fields. A field of None is left out."""
    return json.dumps({name: value for name, value in {**CRM, **fields}.items() if value is not None}).encode()


def write_package(path: Path, files: Mapping[str, bytes] | None = None, **fields: object) -> Path:
    """A package file with that manifest and those files besides."""
    return write_zip(path, {"app.yaml": manifest(**fields), **(files or {})})


def write_zip(path: Path, files: Mapping[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    """Any zip file."""
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return path


def with_entry(path: Path, entry: zipfile.ZipInfo, content: bytes = b"x") -> Path:
    """The package of a small CRM with one strange entry."""
    write_package(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, content)
    return path


def patched(path: Path, name: str, offset: int, format_: str, *values: int) -> Path:
    """Writes values into the central directory's header of an entry, `offset` bytes behind its signature."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b"PK\x01\x02")
    while raw[at + 46 : at + 46 + len(name)] != name.encode():
        at = raw.index(b"PK\x01\x02", at + 1)
    struct.pack_into(format_, raw, at + offset, *values)
    path.write_bytes(raw)
    return path
