"""The `git` command, confined: no hooks, prompts or foreign configuration; one protocol; bounded time, memory and bytes."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tenantry.adapters.sources.git.url import GitUrl

MOST_OUTPUT = 64 * 2**20
MOST_MEMORY = 3 * 2**29
"""Address space of one git process; what it maps counts."""
LOCAL_S = 60.0
"""The time that a command without a remote may take."""
_MOST_ERRORS = 64 * 2**10
_CHUNK = 2**16
_PASSED = (
    "PATH", "SSH_AUTH_SOCK", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
)  # fmt: skip
SSH = (
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ForwardAgent=no -o ForwardX11=no -o PermitLocalCommand=no"
    " -o ClearAllForwardings=yes -o ConnectTimeout=20"
)
_CONFIGURED = {
    "advice.detachedHead": "false",
    "core.bigFileThreshold": "16m",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.packedGitLimit": "256m",
    "core.packedGitWindowSize": "32m",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",  # always one pack, so that the limit of a file's size is that of a fetch
    "gc.auto": "0",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "30",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
}
_LIMITED = 'ulimit -c 0; ulimit -f "$1" && { ulimit -v "$2" 2>/dev/null || :; }; shift 2; exec "$@"'
"""Limits that a process of its own sets upon itself, in units of 512 bytes and KiB; not every system knows the second."""
_SAID = re.compile(r"^(?:fatal|error|ERROR|remote): *", re.M)
_EMPTY_WORDS = (
    "Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
)
"""The words that git adds to every failure of ssh."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_SECRET = re.compile(r"//[^/@\s]*@")


class GitFailed(Exception):  # noqa: N818 - what becomes of it is the caller's to say
    """git did not do it. The text is one line that says why. said: all that it printed about it, `""` where it did not run."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


@dataclass(frozen=True)
class GitLimits:
    """fetch_s: how long asking a remote may take; bytes: how much one fetch may bring; depth: commits of history.

    entries: files of a tree; yaml: bytes of its YAML; packages: bytes of all package sources that one commit names.
    """

    fetch_s: float = 120.0
    bytes: int = 2**30
    depth: int = 50
    entries: int = 500_000
    yaml: int = 2**28
    packages: int = 2**36


class Git:
    """Runs git over one bare repository."""

    def __init__(self, repository: Path, remote: GitUrl, limits: GitLimits) -> None:
        self._repository = repository
        self._limits = limits
        self._program = shutil.which("git") or ""
        self._environment = _environment(remote)

    async def run(
        self,
        *arguments: str,
        given: bytes = b"",
        most: int = MOST_OUTPUT,
        within_s: float = LOCAL_S,
        into: IO[bytes] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the output. given: its standard input; most: limit of the output in bytes; into: receives the output instead.

        variables: added to its environment.

        Raises GitFailed, OSError. The command and its children are ended when it takes too long, prints too much, or is
        cancelled.
        """
        process = self._start(arguments, given, into, variables or {})
        try:
            async with asyncio.timeout(within_s), _piped(process.stdout) as out, _piped(process.stderr) as errors:
                printed, said = await asyncio.gather(_read(out, most), _read(errors, _MOST_ERRORS, cut=True))
                code = await asyncio.to_thread(process.wait)
        except TimeoutError:
            raise GitFailed(f"git {arguments[0]} took longer than {within_s:.0f} s") from None
        finally:
            await _end(process)
        if code:
            raise _failed(arguments[0], said.decode(errors="replace"), code)
        return printed

    def _start(
        self, arguments: tuple[str, ...], given: bytes, into: IO[bytes] | None, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Raises GitFailed, OSError. Not by uvloop: it forks with all of our memory, which takes ten times as long."""
        if not self._program:
            raise GitFailed("the git command is not installed")
        configured = [part for name, value in _CONFIGURED.items() for part in ("-c", f"{name}={value}")]
        with _holding(given) as stdin:
            return subprocess.Popen(  # noqa: S603 - every part of the command line is ours, or stands after `--`
                [
                    *("/bin/sh", "-c", _LIMITED, "sh", str(self._limits.bytes // 512 + 1), str(MOST_MEMORY // 1024)),
                    *(
                        self._program,
                        f"--git-dir={self._repository}",
                        "--no-pager",
                        "--literal-pathspecs",
                        *configured,
                        *arguments,
                    ),
                ],
                stdin=stdin,
                stdout=into if into is not None else subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._environment, **variables},
                cwd="/",
                start_new_session=True,
            )


def _environment(remote: GitUrl) -> Mapping[str, str]:
    """All of it: nothing of the caller's reaches git but what is named here."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {
        **passed,
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": remote.scheme,
        "GIT_ASKPASS": "false",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SSH_COMMAND": SSH,
        "GIT_TERMINAL_PROMPT": "0",
    }


@contextmanager
def _holding(given: bytes) -> Iterator[IO[bytes] | int]:
    """A file to read those bytes from: unlike a pipe nobody has to wait at it."""
    if not given:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        yield file


@asynccontextmanager
async def _piped(pipe: IO[bytes] | None) -> AsyncIterator[asyncio.StreamReader | None]:
    """Yield a reader of a pipe's output; the pipe is closed at the end."""
    if pipe is None:
        yield None
        return
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        yield reader
    finally:
        transport.close()


async def _read(stream: asyncio.StreamReader | None, most: int, *, cut: bool = False) -> bytes:
    """All that it brings. cut: what is more than `most` is left out; else it raises GitFailed."""
    # What grows is copied to where it has room: at 95 MiB it would have both for a moment.
    taken, left = list[bytes](), most
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        if len(chunk) > left and not cut:
            raise GitFailed(f"git printed more than {most // 2**20} MiB")
        if left:
            taken.append(chunk[:left])
            left -= len(taken[-1])
    return b"".join(taken)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it with all that it has started, unless it has ended by itself; it is no zombie then, also when this is cancelled."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.shield(asyncio.to_thread(process.wait))


def _failed(command: str, said: str, code: int) -> GitFailed:
    """Return git's message as one line and by lines. It is bounded, without control characters and credentials."""
    lines = [_SECRET.sub("//...@", " ".join(_CONTROL.sub(" ", line).split())) for line in _SAID.sub("", said).splitlines()]
    lines = [line for line in lines if line and line not in _EMPTY_WORDS]
    return GitFailed("; ".join(lines)[:500] or f"git {command} ended with {code}", "\n".join(lines))
