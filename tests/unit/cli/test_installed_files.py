"""The files of an installation, compared with its RECORD."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest

from tenantry.cli.clients.installed_files import survey
from tenantry.cli.output.failing import Failure

MODULE = b"print('as it was built')\n"


def installed(folder: Path, record: bool = True, **direct: object) -> Distribution:
    """An installation of a package with two modules, as pip makes it."""
    about = folder / "tenantry-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tenantry\nVersion: 1.0\n")
    lines = []
    for name in ("tenantry/__init__.py", "tenantry/engine/one.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(MODULE)
        digest = base64.urlsafe_b64encode(hashlib.sha256(MODULE).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(MODULE)}")
    lines += ["tenantry/__pycache__/__init__.cpython-311.pyc,,", "tenantry-1.0.dist-info/RECORD,,"]
    if record:
        (about / "RECORD").write_text("\n".join(lines) + "\n")
    if direct:
        (about / "direct_url.json").write_text(json.dumps(direct))
    return PathDistribution(about)


def test_an_untouched_installation_has_nothing_wrong(tmp_path: Path) -> None:
    assert survey(installed(tmp_path)) == (2, ())


def test_each_file_that_differs_is_named(tmp_path: Path) -> None:
    package = installed(tmp_path)
    (tmp_path / "tenantry/engine/one.py").write_bytes(MODULE + b"# and one line more\n")
    (tmp_path / "tenantry/__init__.py").unlink()
    (tmp_path / "tenantry/engine/two.py").write_bytes(b"")

    found = survey(package)

    assert found.checked == 0
    assert found.wrong == (
        f"{tmp_path}/tenantry/__init__.py: no such file or directory",
        f"{tmp_path}/tenantry/engine/one.py: differs from the package",
        f"{tmp_path}/tenantry/engine/two.py: is not part of the package",
    )


def test_an_editable_installation_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="editable installation"):
        survey(installed(tmp_path, url="file:///src", dir_info={"editable": True}))


def test_an_installation_without_a_record_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="has no RECORD"):
        survey(installed(tmp_path, record=False))
