"""The installed files of a package, compared with the digests in its RECORD. Damage shows, not a forged RECORD."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import NamedTuple

from tenantry.cli.output.failing import BAD_INPUT, Failure


class Survey(NamedTuple):
    """checked: how many files have the digest of the RECORD; wrong: a line for each file that differs."""

    checked: int
    wrong: tuple[str, ...]


def survey(installed: Distribution) -> Survey:
    """Compare each file with its digest, and look for modules that the package did not bring.

    Bytecode is not compared: each machine writes its own. Raises Failure if the package is a link to a work tree.
    """
    direct = json.loads(installed.read_text("direct_url.json") or "{}")
    if direct.get("dir_info", {}).get("editable"):
        raise Failure(
            "this is an editable installation: its files are those of a work tree, and no package lists them", BAD_INPUT
        )
    recorded = installed.files
    if not recorded:
        raise Failure("the installation has no RECORD: install the package again", BAD_INPUT)
    digests = {Path(str(each.locate())).resolve(): each.hash.value for each in recorded if each.hash is not None}
    differing = [*_differing(digests)]
    modules = Path(str(installed.locate_file(installed.name))).resolve().rglob("*.py")
    added = [f"{path}: is not part of the package" for path in modules if path not in digests]
    return Survey(len(digests) - len(differing), tuple(sorted([*differing, *added])))


def _differing(digests: dict[Path, str]) -> Iterator[str]:
    for path, wanted in digests.items():
        try:
            found = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        except OSError as error:
            yield f"{path}: {(error.strerror or str(error)).lower()}"
            continue
        if found != wanted:
            yield f"{path}: differs from the package"
