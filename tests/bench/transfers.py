"""P12 and P13: packages of 256 MiB up and down over loopback TCP, against bare sockets.

The platform and the bare servers are in this process; the client is a process of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tenantry.cli.processes.serving import loop_factory
from tests.bench.apps import manifest
from tests.bench.row import Row, Scale, Took, interleaved, row
from tests.bench.served import Served, platform

SIZE = 256 << 20
ENTRY = 16 << 20
BUFFER = 1 << 20
GATE = 0.4
BOUNDARY = "d3f4b0c8"


@dataclass
class Client:
    """Moves files by a process of its own. grown: bytes of memory by which this process, the server, grew at most."""

    folder: Path
    grown: int = field(default=0, init=False)

    async def move(self, port: int, head: bytes, file: Path | None = None, tail: bytes = b"") -> Took:
        """wall: as the client saw it; cpu: of this process."""
        paths = [self.folder / "head", *([file, self.folder / "tail"] if file else [])]
        (self.folder / "head").write_bytes(head)
        (self.folder / "tail").write_bytes(tail)
        command = [sys.executable, "-m", "tests.bench.transfer", str(port), *map(str, paths)]
        before, memory = time.process_time(), _memory("VmRSS")
        _forget_peak()
        client = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        told, _ = await client.communicate()
        assert client.returncode == 0, "the client failed"
        self.grown = max(self.grown, _memory("VmHWM") - memory)
        return Took(float(told), time.process_time() - before)


def p12(scale: Scale) -> Sequence[Row]:
    """The upload of a package."""
    folder, size = scale.folder / "p12", scale.of(SIZE)
    folder.mkdir()
    numbers = itertools.count()
    with asyncio.Runner(loop_factory=loop_factory()) as runner, _running(runner, folder) as served, _listening(_take) as bare:
        client = Client(folder)

        def push() -> Took:
            package = _package(folder, f"1.0.{next(numbers)}", size)
            sha256 = _sha256(package)
            head = _head(served, "PUT", f"/api/v1/packages/{sha256}", package.stat().st_size)
            return runner.run(client.move(served.port, head, package))

        def take() -> Took:
            package = _package(folder, "1.0.0", size)
            head = f"{folder / 'taken'} {package.stat().st_size}\r\n".encode()
            return runner.run(Client(folder).move(bare, head, package))

        times = interleaved(push, take, scale.repetitions)
    grown = f"{client.grown / 2**20:.0f} MiB"
    work, reference = f"push of a package of {size >> 20} MiB", "bare socket to sha256 to file, fsync, rename"
    return (row("P12", work, reference, times, "higher", GATE, unit="MB/s", amount=size / 1e6, memory=grown),)


def p13(scale: Scale) -> Sequence[Row]:
    """The download of a package, whole and in part."""
    folder, size = scale.folder / "p13", scale.of(SIZE)
    folder.mkdir()
    package = _package(folder, "1.0.0", size)
    total = package.stat().st_size
    with asyncio.Runner(loop_factory=loop_factory()) as runner, _running(runner, folder) as served, _listening(_give) as bare:
        path = _published(runner, served, Client(folder), package)

        def compared(work: str, first: int) -> Row:
            client = Client(folder)
            head = _head(served, "GET", path, 0, f"Range: bytes={first}-\r\n" if first else "")
            bare_head = f"{package} {first}\r\n".encode()
            times = interleaved(
                lambda: runner.run(client.move(served.port, head)),
                lambda: runner.run(Client(folder).move(bare, bare_head)),
                scale.repetitions,
            )
            grown = f"{client.grown / 2**20:.0f} MiB"
            amount = (total - first) / 1e6
            reference = "a bare os.sendfile server"
            return row("P13", work, reference, times, "higher", GATE, unit="MB/s", amount=amount, memory=grown)

        return (
            compared(f"download of a package of {size >> 20} MiB", 0),
            compared(f"download of a range, its second half ({size >> 21} MiB)", total // 2),
        )


def _published(runner: asyncio.Runner, served: Served, client: Client, package: Path) -> str:
    """Uploads the package to an environment; the path to download it from."""
    apps = f"/engines/{served.environments[0]}/api/v1/admin/apps"
    opening = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="big.tapp"\r\n\r\n'.encode()
    closing = f"\r\n--{BOUNDARY}--\r\n".encode()
    length = len(opening) + package.stat().st_size + len(closing)
    head = _head(served, "POST", f"{apps}/upload", length, f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n")
    runner.run(client.move(served.port, head + opening, package, closing))
    runner.run(served.platform.converged())
    return f"{apps}/big/download/1.0.0"


def _head(served: Served, method: str, path: str, length: int = 0, more: str = "") -> bytes:
    lines = f"Host: 127.0.0.1\r\nAuthorization: Bearer {served.token}\r\nContent-Length: {length}\r\n{more}\r\n"
    return f"{method} {path} HTTP/1.1\r\n{lines}".encode()


def _package(folder: Path, version: str, size: int) -> Path:
    """A package of about that size, stored as images are: what cannot be packed further."""
    path = folder / "big.tapp"
    entry = os.urandom(min(ENTRY, size))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("app.yaml", yaml.safe_dump(manifest("big", [], version)))
        for number in range(size // len(entry)):
            archive.writestr(f"content/{number}.bin", entry)
    return path


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _forget_peak() -> None:
    """Lets VmHWM count from here."""
    Path("/proc/self/clear_refs").write_text("5")


def _memory(what: str) -> int:
    """Bytes that this process has in memory now (VmRSS), or had at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


@contextmanager
def _running(runner: asyncio.Runner, folder: Path) -> Iterator[Served]:
    """A platform with one environment, served while the runner runs."""
    opened = platform(folder / "state", 1)
    served = runner.run(opened.__aenter__())
    try:
        yield served
    finally:
        runner.run(opened.__aexit__(None, None, None))


@contextmanager
def _listening(answer: Callable[[socket.socket, str, int, bytes], None]) -> Iterator[int]:
    """A server of one thread, without HTTP but the head of its answers. Requests begin with `path number`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    line = b""
                    while b"\r\n" not in line:
                        piece = connection.recv(BUFFER)
                        if not piece:
                            return
                        line += piece
                    line, _, rest = line.partition(b"\r\n")
                    path, number = line.decode().rsplit(" ", 1)
                    answer(connection, path, int(number), rest)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _take(connection: socket.socket, path: str, size: int, body: bytes) -> None:
    digest, buffer = hashlib.sha256(body), memoryview(bytearray(BUFFER))
    with Path(f"{path}.part").open("wb", buffering=0) as file:
        file.write(body)
        missing = size - len(body)
        while missing:
            taken = connection.recv_into(buffer)
            digest.update(buffer[:taken])
            file.write(buffer[:taken])
            missing -= taken
        os.fsync(file.fileno())
    Path(f"{path}.part").rename(path)
    connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{digest.hexdigest()}".encode())


def _give(connection: socket.socket, path: str, first: int, _: bytes) -> None:
    with Path(path).open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {end - first}\r\n\r\n".encode())
        position = first
        while position < end:
            position += os.sendfile(connection.fileno(), file.fileno(), position, end - position)
