"""Every file that a command is given may hold anything: a refusal is one sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tenantry.cli.command_line import app
from tests.scenario.cli import called, tenantry
from tests.scenario.platforms import declare

ROOT: Any = typer.main.get_command(app)
SERVERS = frozenset({"up", "engine", "pool", "operator", "api", "await"})
"""They serve, or wait, until somebody ends them."""
CONTENTS = {
    "bytes": bytes(range(256)) * 8,
    "zip": b"PK\x03\x04" + b"\x00" * 60,
    "mapping": b"a: 1\ncontexts: 5\nclusters: [x]\n",
}
PLAIN = {"KEY=-": "password=-", "NAMESPACE/NAME": "tenant-acme/a", "KIND/NAME": "environment/dev", "FILE": "crm.tapp"}
"""A value of each other parameter that a command needs, by its metavar; `x` for the rest."""


def taken(path: tuple[str, ...] = (), command: Any = ROOT) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Each parameter that is a path, with its command and the words that lead there."""
    for name, below in getattr(command, "commands", {}).items():
        yield from taken((*path, name), below)
    if not path or (path[-1] not in SERVERS and path[0] != "pool"):  # only the operator calls those of a pool
        yield from ((path, command, each) for each in command.params if "Path" in str(each.type_descriptor.annotation))


TAKEN = {" ".join((*path, each.opts[0])): (path, command, each) for path, command, each in taken()}
TAKEN = {name: found for name, found in TAKEN.items() if name == "get --state" or not name.endswith(" --state")}


def words(path: tuple[str, ...], command: Any, parameter: Any, file: str) -> list[str]:
    """The call with that file. An option of all commands stands before one of them."""
    found = list(path)
    for each in command.params:
        value = file if each is parameter else PLAIN.get(each.metavar or "", "x")
        if each is parameter or each.required:
            found += [value] if not each.opts[0].startswith("-") else [each.opts[0], value]
    return found if path else [*found, "get", "environments"]


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
    path, command, parameter = TAKEN[taken]
    for name, content in CONTENTS.items():
        (folder / "given").unlink(missing_ok=True)
        (folder / "given").write_bytes(content)
        done = called(*words(path, command, parameter, "given"), cwd=folder)
        assert done.returncode in (0, 1, 2), name
        assert done.returncode == 0 or done.stderr or done.stdout, name


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
