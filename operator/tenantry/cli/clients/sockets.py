"""The places where this process listens: the public address, and the control socket of a state folder."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from tenantry.cli.output.failing import Failure

SOCKET = "control.sock"
"""In a state folder."""
LONGEST_PATH = 107
"""Bytes of a socket's path, at most."""
BACKLOG = 1024


def listening(host: str, port: int, option: str = "--listen ") -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises Failure when it cannot; option: by which another is chosen."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise Failure(f"cannot listen on {host}: {error.strerror}") from error
    # asyncio's own loop sends small answers at once only on sockets whose protocol is named as TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise Failure(_refusal(host, port, option, error)) from error
    return bound


def url_of(bound: socket.socket) -> str:
    """`http://HOST:PORT` of a listening socket, by a name that a client can use."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not bound to
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def control_path(state: Path) -> Path:
    """The control socket's path, short enough for an address. Raises Failure."""
    path = state.absolute() / SOCKET
    if len(os.fsencode(path)) <= LONGEST_PATH:
        return path
    relative = Path(os.path.relpath(path))
    if len(os.fsencode(relative)) <= LONGEST_PATH:
        return relative
    raise Failure(f"the path {path} is too long for a socket ({LONGEST_PATH} bytes); choose a shorter --state")


def controlling(state: Path) -> socket.socket:
    """A control socket (0600) that listens, in place of one that a killed process left. The caller holds the folder's lock."""
    path = control_path(state)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
    finally:
        os.umask(before)
    bound.listen(BACKLOG)
    return bound


def answers(path: Path) -> bool:
    """Return True if a process listens on that socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def _refusal(host: str, port: int, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another with {option}{host}:PORT"
    if error.errno == errno.EACCES:
        return f"port {port} on {host} needs more rights; choose one above 1023 with {option.strip(' =')}"
    return f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}"
