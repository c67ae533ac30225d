"""Building a package from a source folder, reproducible byte for byte."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.check import CONTENT, DEEPEST, MANIFEST, SEED, SYMBOLS, PackageLimits, inspect
from tenantry.packages.parsing import parse_manifest

EPOCH = (1980, 1, 1, 0, 0, 0)
FILE_MODE = 0o100644 << 16


def build(folder: Path, out: Path, limits: PackageLimits | None = None) -> PackageFacts:
    """Writes the package of `folder` to `out`, by one rename. Blocks. Raises Invalid naming what does not fit."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise Invalid((Problem(MANIFEST, f"is missing in {folder}"),))
    parse_manifest(manifest.read_bytes())
    scratch = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path, name in _files(folder):
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = FILE_MODE
                entry.create_system = 3
                archive.writestr(entry, path.read_bytes())
        facts = inspect(scratch, limits)
        scratch.replace(out)
    finally:
        scratch.unlink(missing_ok=True)
    return facts


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a package, in order of name. Raises Invalid for links, and for files that no package holds."""
    for path in sorted(walked(folder)):
        name = path.relative_to(folder).as_posix()
        if any(part.startswith(".") for part in Path(name).parts):
            continue
        if path.is_symlink():
            raise Invalid((Problem(name, "is a link; a package holds files only"),))
        if path.is_dir():
            continue
        if name not in (MANIFEST, SYMBOLS) and not name.startswith((CONTENT, SEED)):
            raise Invalid((Problem(name, f"does not belong: a package holds {MANIFEST}, {SYMBOLS}, {CONTENT} and {SEED}"),))
        yield path, name


def walked(folder: Path) -> Iterator[Path]:
    """Yield all that is below a folder. Raises Invalid for folders that are too deep to walk."""
    for at, folders, files in os.walk(folder):
        if len(Path(at).relative_to(folder).parts) > DEEPEST:
            raise Invalid(
                (Problem(f"{Path(at).relative_to(folder).as_posix()[:60]}", f"is nested deeper than {DEEPEST} folders"),)
            )
        yield from (Path(at) / name for name in (*folders, *files))
