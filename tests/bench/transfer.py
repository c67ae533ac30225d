"""A client of its own process that moves a file's bytes: upload FILE as the body between HEAD and TAIL, or download.

python -m tests.bench.transfer PORT HEAD [FILE TAIL], HEAD and TAIL as files, prints the seconds until the answer has ended.
An answer ends with its connection, or as its Content-Length says.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from pathlib import Path

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
BUFFER = 1 << 20


def run(port: int, head: bytes, file: Path | None, tail: bytes) -> float:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        start = time.perf_counter()
        connection.sendall(head)
        if file is not None:
            with file.open("rb") as body:
                connection.sendfile(body)
            connection.sendall(tail)
        _drain(connection)
        return time.perf_counter() - start


def _drain(connection: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(BUFFER)
        if not piece:
            raise ConnectionError(f"no answer: {head!r}")
        head += piece
    head, _, body = head.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    if head.split(b" ", 2)[1] not in (b"200", b"206") or found is None:
        raise RuntimeError(head.decode() + body.decode(errors="replace"))
    missing, buffer = int(found[1]) - len(body), bytearray(BUFFER)
    while missing:
        taken = connection.recv_into(buffer)
        if not taken:
            raise ConnectionError(f"{missing} bytes are missing")
        missing -= taken


if __name__ == "__main__":
    port, head, *rest = sys.argv[1:]
    upload, tail = (Path(rest[0]), Path(rest[1]).read_bytes()) if rest else (None, b"")
    print(run(int(port), Path(head).read_bytes(), upload, tail))
