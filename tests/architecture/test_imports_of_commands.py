"""The heavy libraries that a command does not import. A process of its own loads each, because tests import them all."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenantry.cli.arguments.kinds import FILE
from tenantry.cli.arguments.known_kinds import generated
from tenantry.cli.command_line import COMMANDS

HEAVY = (
    "aiohttp", "alembic", "cel", "cryptography", "fastapi", "httpx", "joserfc", "jsonschema_rs", "kopf", "kubernetes", "obstore",
    "orjson", "prometheus_client", "psycopg", "pydantic", "rich", "ruamel", "sqlalchemy", "starlette", "structlog", "uvicorn",
    "watchfiles", "yaml",
)  # fmt: skip


def heavy_after(program: str, *arguments: str, libraries: Sequence[str] = HEAVY) -> set[str]:
    """The libraries among these that are imported once the program has run."""
    ends = f"import json, sys\nprint(json.dumps([each for each in {list(libraries)} if each in sys.modules]), file=sys.stderr)"
    whole = f"try:\n    exec({program!r})\nexcept SystemExit:\n    pass\n{ends}"
    done = subprocess.run([sys.executable, "-c", whole, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_declaration_of_a_command_imports_nothing_heavy(command: str) -> None:
    program = f"from tenantry.cli.command_line import ImportedCommands\nImportedCommands()[{command!r}]"
    assert heavy_after(program) == set()


@pytest.mark.slow
def test_a_command_is_declared_under_each_name() -> None:
    program = (
        "from tenantry.cli.command_line import ImportedCommands as I\nassert [each.name for each in I().values()] == list(I())"
    )
    assert heavy_after(program) == set()


@contextmanager
def running_up(state: Path) -> Iterator[None]:
    """A control socket that answers every list with no objects."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state / "control.sock"))
        listener.listen()

        def answer() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "environments"],
        ["get", "tenv", "-n", "tenant-acme"],
        ["get", "apps", "-A", "-o", "json"],
        ["get", "apps", "--selector=team=crm", "-o", "name"],
        ["tree"],
    ],
)
def test_a_read_of_a_running_platform_imports_no_library_at_all(arguments: list[str], tmp_path: Path) -> None:
    program = "from tenantry.cli.main import main\nmain()"
    with running_up(tmp_path):
        found = heavy_after(program, *arguments, "--state", str(tmp_path), libraries=(*HEAVY, "typer", "asyncio", "dataclasses"))
    assert found == set()


UNUSED = ("click", "pydantic_settings", "pygments", "rich", "sqlite3", "tenantry.kinds.registry", "tenantry.settings")
"""Modules that a command to a running platform could do without, and once imported."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["operations"],
        ["reconcile", "environment/tenant-acme/dev"],
        ["suspend", "environment/tenant-acme/dev"],
        ["wait", "environment/tenant-acme/dev", "--timeout", "1ms"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_to_a_running_platform_imports_no_more_than_it_uses(arguments: list[str], tmp_path: Path) -> None:
    program = "import sys\nfrom tenantry.cli.main import main\nmain()"
    with running_up(tmp_path):
        found = heavy_after(program, *arguments, "--state", str(tmp_path), libraries=(*UNUSED, "tenantry.cli.clients.remote"))
    assert found == {"tenantry.cli.clients.remote"}


def test_the_file_of_kinds_is_what_the_specs_generate() -> None:
    assert FILE.read_text() == generated(), "run `make crds`: it writes this file, too"


def test_the_process_that_checks_packages_imports_what_a_check_needs() -> None:
    unused = (*UNUSED, "asyncio", "subprocess", "tenantry.rest")
    assert heavy_after("import tenantry.packages.apart", libraries=unused) == set()
