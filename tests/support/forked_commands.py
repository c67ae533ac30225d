"""Commands of `tenantry` as processes, forked from one that has imported it: that spares each of them most of a second."""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.fork_server import CLUSTER, LARGEST, MACHINE, Call

OPERATOR = Path(__file__).parents[2] / "operator"
MODULE = "tenantry.cli.main"
READ_LATE = (
    "TENANTRY_",
    "_TENANTRY_",
    "COMP_",
    "KUBECONFIG",
    "OTEL_",
    "PATH",
    "PYTEST_CURRENT_TEST",
    "TMPDIR",
    "XDG_CONFIG_HOME",
)
"""Beginnings of the names of variables that nothing reads before a command runs."""
ON_CLUSTER = frozenset({"api", "operator", "--kubeconfig"})
"""Commands and options that only a platform on Kubernetes has."""
_PROGRAM = Path(__file__).with_name("fork_server.py")
_SET_CHILD_SUBREAPER = 36
"""Of Linux's prctl: a grandchild whose parent ends becomes a child of this process."""
_STREAMS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def start(
    arguments: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], module: str = MODULE, **streams: Any
) -> subprocess.Popen[str]:
    """Start a command, as `Popen` with text starts `python -m MODULE`. streams: stdin, stdout, stderr, as of `Popen`.

    What is not on Linux, or has other variables that a library may read while it is imported, starts as a program of its own.
    """
    if sys.platform != "linux" or _read_early(env) != _read_early(BASE):
        return start_program(arguments, cwd=cwd, env=env, module=module, **streams)
    return _Forked(_command(module, arguments), cwd=cwd, env=env, text=True, **streams)


def start_program(
    arguments: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], module: str = MODULE, **streams: Any
) -> subprocess.Popen[str]:
    """Start a command as a program of its own, as `start` does: for measurements of its start and its memory."""
    return subprocess.Popen(_command(module, arguments), cwd=cwd, env=env, text=True, **streams)


def _command(module: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def plain_environment() -> dict[str, str]:
    """Return the environment of a command: without any setting of the machine that the tests run on."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TENANTRY_")}
    return kept | {"PYTHONPATH": str(OPERATOR), "COLUMNS": "200", "NO_COLOR": "1"}


BASE = plain_environment()
"""The environment of a command, before a test could change it."""


def _read_early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(READ_LATE)}


class _Forked(subprocess.Popen[str]):
    """A child of this process that the fork server made. All but the start is Popen's own."""

    def _execute_child(self, *given: Any) -> None:
        """Take the place of the fork and exec of Popen, on which its streams, waits and signals rely."""
        named = dict(zip(inspect.signature(super()._execute_child).parameters, given, strict=True))  # type: ignore[misc]
        files = [named["p2cread"], named["c2pwrite"], named["errwrite"]]
        _, _, module, *arguments = named["args"]
        own = os.umask(0)
        os.umask(own)
        call = Call(
            module=module,
            arguments=arguments,
            cwd=str(named["cwd"]),
            variables=dict(named["env"]),
            umask=own,
            files=resource.getrlimit(resource.RLIMIT_NOFILE),
        )
        words = {*arguments, *named["env"].get("COMP_WORDS", "").split()}  # of the command, or of a line to complete
        platform = CLUSTER if ON_CLUSTER & words else MACHINE
        self.pid = _server(platform).fork(call, [own if file == -1 else file for own, file in enumerate(files)])
        self._child_created = True
        self._close_pipe_fds(*(named[name] for name in _STREAMS))  # type: ignore[attr-defined]


class _Server:
    def __init__(self, platform: str) -> None:
        self._one_at_a_time = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, str(_PROGRAM), str(theirs.fileno()), platform]
        self._process = subprocess.Popen(command, env=BASE, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        theirs.close()
        self._answer()

    def fork(self, call: Call, files: Sequence[int]) -> int:
        """Return the id of a new child of this process that makes the call with these standard streams."""
        with self._one_at_a_time:
            _adopt(True)
            try:
                socket.send_fds(self._control, [json.dumps(call).encode()], list(files))
                return int(self._answer())
            finally:
                _adopt(False)

    def end(self) -> None:
        self._control.close()
        self._process.wait()

    def _answer(self) -> bytes:
        answer = self._control.recv(LARGEST)
        assert answer, f"the fork server has ended with {self._process.wait()}; its error output says why"
        return answer


@cache
def _server(platform: str) -> _Server:
    server = _Server(platform)
    atexit.register(server.end)
    return server


def _adopt(orphans: bool) -> None:
    """Let orphans below this process become its children, or the children of another."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
