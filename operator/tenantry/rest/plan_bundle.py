"""A source as a client sends it to be planned: a zip of `source.json`, and of the packages that its documents name by sha256.

Nothing in it is compressed: what is sent is as large as what is kept.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tenantry.model.tree import Place, Tree
from tenantry.rest.bodies import invalid

MEDIA_TYPE = "application/zip"
MOST_DOCUMENTS = 20_000
LARGEST_SOURCE = 64 * 2**20
MOST_PACKAGES = 200
MOST_PASSED_OVER = 10**9
_SOURCE = "source.json"
_PACKAGE = re.compile(r"packages/([0-9a-f]{64})\.tapp")


class Bundle(NamedTuple):
    """name: the source's own; commit: of a repository, `""` for a folder; packages: the sha256 of those that come along;
    history: the commits that lead to the commit, as far as the client knows them.

    passed_over: the number of documents of other API groups, which are not sent.
    """

    name: str
    commit: str
    documents: tuple[tuple[Place, Any], ...]
    packages: tuple[str, ...]
    history: frozenset[str] = frozenset()
    passed_over: int = 0


def write_bundle(file: Path, tree: Tree, name: str, packages: Mapping[str, Path], history: Sequence[str] = ()) -> None:
    """Writes what a source declares, and the packages by their sha256. Blocks."""
    documents = [[each.place.file, each.place.line, each.document] for each in tree.documents]
    commit = tree.revision.commit if tree.revision else ""
    source = {"name": name, "commit": commit, "history": history, "passed_over": tree.passed_over, "documents": documents}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_SOURCE, orjson.dumps(source))
        for sha256, package in packages.items():
            archive.write(package, f"packages/{sha256}.tapp")


def read_bundle(file: Path) -> Bundle:
    """Blocks. Raises Invalid, naming the field."""
    try:
        with zipfile.ZipFile(file) as archive:
            packages = tuple(found for each in archive.infolist() if (found := _package(each)))
            if len(packages) > MOST_PACKAGES:
                raise invalid("body", f"holds more than {MOST_PACKAGES} packages")
            return _source(archive)._replace(packages=packages)
    except (zipfile.BadZipFile, NotImplementedError, KeyError, OverflowError) as error:
        raise invalid("body", f"is not a zip of {_SOURCE} and packages: {error}") from None


def take_package(file: Path, sha256: str, target: Path) -> None:
    """Writes one of the packages of a bundle that could be read to a file. Blocks."""
    with zipfile.ZipFile(file) as archive, archive.open(f"packages/{sha256}.tapp") as package, target.open("wb") as written:
        shutil.copyfileobj(package, written)


def _package(entry: zipfile.ZipInfo) -> str:
    """The sha256 that a package's entry is named by, `""` for the source."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise invalid("body", f"{entry.filename!r} is compressed or encrypted")
    found = _PACKAGE.fullmatch(entry.filename)
    if found is None and entry.filename != _SOURCE:
        raise invalid("body", f"holds {entry.filename!r}")
    return found[1] if found else ""


def _source(archive: zipfile.ZipFile) -> Bundle:
    if archive.getinfo(_SOURCE).file_size > LARGEST_SOURCE:
        raise invalid(_SOURCE, f"is larger than {LARGEST_SOURCE // 2**20} MiB")
    try:
        body = orjson.loads(archive.read(_SOURCE))
        name, commit, documents = body["name"], body["commit"], body["documents"]
        history, passed_over = body.get("history", []), body.get("passed_over", 0)
        placed = tuple((Place(str(file), int(line)), document) for file, line, document in documents)
    except (ValueError, TypeError, KeyError) as error:
        raise invalid(_SOURCE, f"must hold name, commit and documents: {error}") from None
    if not isinstance(name, str) or not isinstance(commit, str) or not name:
        raise invalid(_SOURCE, "name and commit must be texts, and name not empty")
    if not isinstance(history, list) or not all(isinstance(each, str) for each in history):
        raise invalid(_SOURCE, "history must be a list of commits")
    if type(passed_over) is not int or not 0 <= passed_over <= MOST_PASSED_OVER:
        raise invalid(_SOURCE, f"passed_over must be a whole number from 0 to {MOST_PASSED_OVER:,}")
    if len(placed) > MOST_DOCUMENTS:
        raise invalid(_SOURCE, f"holds more than {MOST_DOCUMENTS:,} documents")
    return Bundle(name, commit, placed, (), frozenset(history), passed_over)
