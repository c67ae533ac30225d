"""Every file that a command is given may hold anything: a refusal is one sentence, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.cli import called, tenantry
from tests.scenario.platforms import declare
from tests.unit.cli.path_parameters import path_parameters

SERVERS = frozenset({"up", "engine", "pool", "operator", "api", "await"})
"""They serve, or wait, until somebody ends them."""
CONTENTS = {
    "bytes": bytes(range(256)) * 8,
    "zip": b"PK\x03\x04" + b"\x00" * 60,
    "text": b"# Read me\n\nText.\n",
    "mapping": b"a: 1\ncontexts: 5\nclusters: [x]\n",
}
FILES = {"FILE": "crm.tapp"}
"""Files of other parameters, by their metavars."""
OF_LIBRARIES = ("Errno", "could not be opened", "Expecting", "not found", "is a directory", "File exists", "Traceback")
"""Words of Python and its libraries."""


def takes_any_file(name: str) -> bool:
    """False for the options of what serves, of the commands that only the operator calls, and of results of checks."""
    path = name.split()[:-1]
    return not path or (path[-1] not in SERVERS and path[0] != "pool" and name not in ("check --state", "doctor --state"))


TAKEN = {each.name: each for each in path_parameters() if takes_any_file(each.name)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a platform that has run, and a good package."""
    folder = tmp_path_factory.mktemp("given")
    source = declare(folder)
    assert tenantry("up", "platform", "--once", cwd=folder).returncode == 0
    assert called("package", "build", next(source.rglob("app.yaml")).parent, "-o", "crm.tapp", cwd=folder).returncode == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("taken", TAKEN)
def test_a_file_of_anything_is_taken_or_refused_with_a_sentence(folder: Path, taken: str) -> None:
    for name, content in CONTENTS.items():
        (folder / "given").unlink(missing_ok=True)
        (folder / "given").write_bytes(content)
        done = called(*TAKEN[taken].call("given", FILES), cwd=folder)
        assert done.returncode in (0, 1, 2), name
        assert done.returncode == 0 or done.stderr or done.stdout, name
        assert done.returncode == 0 or not [each for each in OF_LIBRARIES if each in done.stderr], (name, done.stderr)


@pytest.mark.slow
def test_a_file_that_is_no_backup_is_called_so(folder: Path) -> None:
    (folder / "README.md").write_bytes(CONTENTS["text"])
    for command in (("restore", "README.md"), ("engine", "restore", "README.md", "--data", "new")):
        done = called(*command, cwd=folder)
        assert done.returncode == 2
        assert done.stderr.endswith("README.md: is not a backup: it is not a tar archive, or it is cut short\n")


READING = {
    "secret set": ("secret", "set", "tenant-acme/a", "password=-", "--for", "user"),
    "import": ("import", "--engine", "https://127.0.0.1:9", "--as", "a/b", "--region", "eu", "-o", "out"),
    "apply": ("apply", "-f", "-"),
    "validate": ("validate", "-"),
}
"""The commands that read standard input."""


@pytest.mark.slow
@pytest.mark.parametrize("command", READING)
def test_standard_input_of_bytes_is_refused_with_a_sentence(folder: Path, command: str) -> None:
    done = called(*READING[command], cwd=folder, stdin=CONTENTS["bytes"])
    assert "not UTF-8" in done.stderr + done.stdout
    assert done.returncode == 2
