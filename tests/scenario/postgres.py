"""A PostgreSQL server for the tests that want one, of Debian's binaries, on a free loopback port."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.scenario.tools import lacking
from tests.support.ports import free_port

BINARIES = Path("/usr/lib/postgresql/15/bin")
# PostgreSQL refuses to run as root; Debian's package brings a user for it.
_USER = "postgres" if os.geteuid() == 0 else None


class Made(NamedTuple):
    """A database that a module of tests made, 8 MB and more."""

    server: str
    module: str
    name: str


_made: list[Made] = []


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a running server, without a database's name. Skips where the binaries are missing."""
    with running() as address:
        yield address


@dataclass
class Machine:
    """A server with its files. address: without a database's name."""

    address: str
    folder: Path
    options: str

    def start(self) -> None:
        _run("pg_ctl", "-D", f"{self.folder}/data", "-o", self.options, "-l", f"{self.folder}/log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        _run("pg_ctl", "-D", f"{self.folder}/data", "-m", mode, "-w", "stop")

    def back_up(self) -> None:
        """Copy its files, while it is stopped."""
        self.stop("fast")
        subprocess.run(["cp", "-a", self.folder / "data", self.folder / "kept"], check=True)
        self.start()

    def put_back(self) -> None:
        """Let it go on from that copy, as if nothing had happened since."""
        self.stop()
        shutil.rmtree(self.folder / "data")
        subprocess.run(["cp", "-a", self.folder / "kept", self.folder / "data"], check=True)
        self.start()


@contextmanager
def running(*, durable: bool = False, passwords: bool = False) -> Iterator[str]:
    """The same for a block. durable: a commit waits for the disk; passwords: roles other than the superuser need theirs."""
    with machine(durable=durable, passwords=passwords) as made:
        yield made.address


@contextmanager
def machine(*, durable: bool = False, passwords: bool = False) -> Iterator[Machine]:
    """The same with its files."""
    if not (BINARIES / "initdb").exists():
        lacking(f"no PostgreSQL 15 at {BINARIES}: apt-get install postgresql-15")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if _USER:
        shutil.chown(folder, _USER)
    port = free_port()
    _run("initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "tests", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    if passwords:
        rules = ("local all all trust", "host all tests 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256")
        (folder / "data" / "pg_hba.conf").write_text("\n".join((*rules, "")))
    # Each test has a database of its own: by default, the vacuum would visit all of them each minute.
    options = f"-k {folder} -p {port} -h 127.0.0.1 -c fsync={'on' if durable else 'off'} -c timezone=Asia/Tokyo"
    options += " -c autovacuum_naptime=3600"
    if not durable:  # what dies with its machine has lost its data anyway: its pages need no copies in the log
        options += " -c full_page_writes=off"
    made = Machine(f"tests@127.0.0.1:{port}", folder, options)
    made.start()
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def database_url(server: str) -> str:
    """The URL of a new database at that server, as an engine takes it. It is there until another module makes one."""
    name, module = f"t{secrets.token_hex(8)}", os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
        for other in [each for each in _made if each.server == server and each.module != module]:
            connection.execute(f"DROP DATABASE IF EXISTS {other.name} WITH (FORCE)".encode())
            _made.remove(other)
        # The other strategy writes it all twice.
        connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
    _made.append(Made(server, module, name))
    return f"postgresql+psycopg://{server}/{name}"


def _run(program: str, *arguments: str) -> None:
    subprocess.run([BINARIES / program, *arguments], check=True, user=_USER, stdout=subprocess.DEVNULL, cwd="/")
