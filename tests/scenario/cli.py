"""The command line as a process."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

from tenantry.cli.main import main
from tests.support import waiting
from tests.support.forked_commands import MODULE, plain_environment, start

COMMAND = (sys.executable, "-m", MODULE)
PATIENCE_S = 150.0
T = TypeVar("T")
_HOME = tempfile.TemporaryDirectory(prefix="tenantry-home-")
CONFIG = Path(_HOME.name)
"""The folder of a person's own settings; it goes with this process."""


def environment() -> dict[str, str]:
    """Without any setting of the machine that the tests run on."""
    return plain_environment() | {"XDG_CONFIG_HOME": str(CONFIG)}


def tenantry(*arguments: str | Path, cwd: Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with begun(*arguments, cwd=cwd, variables=variables, **pipes) as process:
        try:
            out, err = process.communicate(stdin, PATIENCE_S)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def begun(*arguments: str | Path, cwd: Path, variables: Mapping[str, str], **streams: Any) -> subprocess.Popen[str]:
    """Begins a command. streams: stdin, stdout and stderr, as of `Popen`."""
    return start([*map(str, arguments)], cwd=cwd, env={**environment(), **variables}, **streams)


class Terminal(io.StringIO):
    """Output that a program takes for a terminal's."""

    def isatty(self) -> bool:
        return True


def called(
    *arguments: str | Path, cwd: Path, stdin: str | bytes = "", columns: int = 0, asked: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The same in this process, which spares the imports. For client commands only.

    columns: of a terminal; 0 for a pipe. asked: a person is there, whose answers are `stdin`.
    """
    given = stdin.encode() if isinstance(stdin, str) else stdin
    out = Terminal() if columns else io.StringIO()
    err = Terminal() if asked else io.StringIO()
    input_ = Terminal(given.decode()) if asked else io.TextIOWrapper(io.BytesIO(given))
    variables |= {"COLUMNS": str(columns)} if columns else {}
    argv = ["tenantry", *map(str, arguments)]
    around = mock.patch.dict(os.environ, environment() | variables, clear=True)
    with (
        _same_umask(),
        chdir(cwd),
        around,
        mock.patch("sys.argv", argv),
        mock.patch("sys.stdin", input_),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return subprocess.CompletedProcess(argv, int(ended.value.code or 0), out.getvalue(), err.getvalue())


@contextmanager
def _same_umask() -> Iterator[None]:
    """The command sets that of its process, which is that of the tests here."""
    before = os.umask(0o022)
    os.umask(before)
    try:
        yield
    finally:
        os.umask(before)


def until(holds: Callable[[], T], shows: Callable[[], object] | None = None) -> T:
    """Wait for a condition of other processes, as waiting.until."""
    return waiting.until(holds, within=PATIENCE_S, shows=shows)


@dataclass
class Running:
    """A process that serves. url: where."""

    process: subprocess.Popen[str]
    url: str
    printed: list[str]

    def end(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """Ends it, and returns its exit code."""
        self.process.send_signal(with_signal)
        return self.process.wait(PATIENCE_S)


@contextmanager
def serving(*arguments: str | Path, cwd: Path, **variables: str) -> Iterator[Running]:
    """A command that runs until it is ended; entered when it has printed where it serves."""
    errors = (cwd / "stderr").open("w+")
    process = begun(*arguments, cwd=cwd, variables=variables, stdout=subprocess.PIPE, stderr=errors)
    try:
        printed = list(_until_url(process))
        if not printed or not (found := re.search(r"http://\S+", printed[-1])):
            process.kill()
            raise AssertionError(f"it did not serve: {printed} {(cwd / 'stderr').read_text()}")
        yield Running(process, found[0], printed)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE_S)
        process.stdout.close() if process.stdout else None
        errors.close()


def _until_url(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    deadline = time.monotonic() + PATIENCE_S
    for line in process.stdout:
        yield line.rstrip("\n")
        if "http://" in line or time.monotonic() > deadline:
            return


def completed(folder: Path, line: str) -> list[str]:
    """The words that the command offers for the end of a line, as bash asks for them."""
    words = line.split(" ")
    asking = {"_TENANTRY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = tenantry(cwd=folder, **asking)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.split()
