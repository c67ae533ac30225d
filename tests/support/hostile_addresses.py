"""Addresses that the platform must not call, and a listener that counts calls."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

# By the name that is asked for, what its resolver answers: PORT is a listener of this test.
RESOLVED = {
    "loop.example": ["127.0.0.1"],
    "loop6.example": ["::1"],
    "private.example": ["10.0.0.7"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["127.0.0.1", "93.184.216.34"],
    "any.example": ["0.0.0.0"],
    "unique-local.example": ["fd00::1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "odd.example": ["2130706433"],
}
URLS = {
    "loopback": "https://127.0.0.1:{port}/",
    "another loopback": "https://127.8.9.10:{port}/",
    "localhost": "https://localhost:{port}/",
    "localhost with a dot": "https://localhost.:{port}/",
    "upper case": "https://LOCALHOST:{port}/",
    "loopback with a dot": "https://127.0.0.1.:{port}/",
    "a decimal number": "https://2130706433:{port}/",
    "a hexadecimal number": "https://0x7f000001:{port}/",
    "an octal number": "https://017700000001:{port}/",
    "an octal part": "https://0177.0.0.1:{port}/",
    "a hexadecimal part": "https://0x7f.0.0.1:{port}/",
    "two parts": "https://127.1:{port}/",
    "three parts": "https://127.0.1:{port}/",
    "leading zeros": "https://127.000.000.001:{port}/",
    "zero": "https://0:{port}/",
    "any address": "https://0.0.0.0:{port}/",
    "full-width digits": "https://１２７.０.０.１:{port}/",
    "circled digits": "https://①②⑦.0.0.1:{port}/",
    "an ideographic full stop": "https://127。0。0。1:{port}/",
    "a percent-encoded address": "https://%31%32%37.0.0.1:{port}/",
    "a percent-encoded dot": "https://127%2E0.0.1:{port}/",
    "IPv6 loopback": "https://[::1]:{port}/",
    "IPv6 loopback in full": "https://[0:0:0:0:0:0:0:1]:{port}/",
    "IPv6 any": "https://[::]:{port}/",
    "mapped loopback": "https://[::ffff:127.0.0.1]:{port}/",
    "mapped loopback in hexadecimal": "https://[::ffff:7f00:1]:{port}/",
    "compatible loopback": "https://[::127.0.0.1]:{port}/",
    "translated loopback": "https://[64:ff9b::7f00:1]:{port}/",
    "locally translated loopback": "https://[64:ff9b:1::7f00:1]:{port}/",
    "6to4 loopback": "https://[2002:7f00:1::]:{port}/",
    "Teredo": "https://[2001:0:7f00:1::]:{port}/",
    "a zone": "https://[fe80::1%25lo]:{port}/",
    "link-local IPv6": "https://[fe80::1]:{port}/",
    "site-local IPv6": "https://[fec0::1]:{port}/",
    "unique local IPv6": "https://[fd00::1]:{port}/",
    "metadata by IPv6": "https://[fd00:ec2::254]/latest/meta-data/",
    "documentation IPv6": "https://[2001:db8::1]/",
    "multicast IPv6": "https://[ff02::1]/",
    "metadata": "https://169.254.169.254/latest/meta-data/",
    "metadata of another cloud": "https://100.100.100.200/latest/meta-data/",
    "metadata of a third": "https://192.0.0.192/opc/v2/",
    "a cloud's host": "https://168.63.129.16/machine",
    "metadata as a number": "https://2852039166/",
    "private A": "https://10.0.0.1/",
    "private B": "https://172.16.0.1/",
    "private C": "https://192.168.0.1/",
    "shared": "https://100.64.0.1/",
    "benchmarks": "https://198.18.0.1/",
    "documentation": "https://192.0.2.1/",
    "multicast": "https://224.0.0.1/",
    "reserved": "https://240.0.0.1/",
    "broadcast": "https://255.255.255.255/",
    "a name of loopback": "https://loop.example:{port}/",
    "a name of IPv6 loopback": "https://loop6.example:{port}/",
    "a name of a private address": "https://private.example:{port}/",
    "a name of a mapped address": "https://mapped.example:{port}/",
    "a name of metadata": "https://metadata.example/",
    "a name of loopback and of a public address": "https://mixed.example:{port}/",
    "a name of any address": "https://any.example:{port}/",
    "a name of a unique local address": "https://unique-local.example:{port}/",
    "a name of a translated address": "https://nat64.example:{port}/",
    "a name of a number": "https://odd.example:{port}/",
    "no encryption": "http://loop.example:{port}/",
    "a user": "https://93.184.216.34@127.0.0.1:{port}/",
    "a user before a public host": "https://127.0.0.1:{port}@93.184.216.34/",
    "a user by a backslash": "https://127.0.0.1:{port}\\@93.184.216.34/",
    "a fragment before the host ends": "https://127.0.0.1:{port}#@93.184.216.34/",
    "an empty fragment": "https://127.0.0.1:{port}/#",
    "spaces": "https:// 127.0.0.1:{port}/",
    "a line end": "https://127.0.0.1:{port}/\r\nHost: a",
    "a tab in the host": "https://127.0.\t0.1:{port}/",
    "NUL": "https://127.0.0.1\0.example:{port}/",
    "a file": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1:{port}/_GET",
    "no scheme": "//127.0.0.1:{port}/",
    "a relative path": "/latest/meta-data/",
    "no host": "https:///etc/passwd",
    "a socket": "unix:///var/run/docker.sock",
    "data": "data:application/json,{{}}",
    "port 0": "https://127.0.0.1:0/",
    "a port too large": "https://127.0.0.1:99999/",
    "a port that is none": "https://127.0.0.1:http/",
    "nothing": "",
    "a name of loopback with a dot": "https://loop.example.:{port}/",
    "a name of loopback in capitals": "https://LOOP.EXAMPLE:{port}/",
    "a port that is a name": "https://127.0.0.1:https/",
    "an address with a path of another host": "https://127.0.0.1:{port}/https://93.184.216.34/",
    "a mixed-case scheme without encryption": "HtTp://loop.example:{port}/",
    "a socket's scheme": "wss://127.0.0.1:{port}/",
    "an IPv6 address with leading zeros": "https://[0000:0000::0001]:{port}/",
    "IPv6 loopback with a zone": "https://[::1%25lo]:{port}/",
    "a mapped private address": "https://[::ffff:10.0.0.1]/",
    "a compressed mapped metadata address": "https://[::ffff:a9fe:a9fe]/",
    "nine digits of an address": "https://127.1.:{port}/",
    "a hexadecimal address with a dot": "https://0x7f.1:{port}/",
    "too long": "https://loop.example:{port}/" + "a" * 3000,
}


class Listener:
    """Takes connections at 127.0.0.1, and counts them. `answer`: what each is sent."""

    def __init__(self) -> None:
        self.connections = 0
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        try:
            await writer.drain()
            await asyncio.sleep(0 if self.answer.startswith(b"HTTP") else 60)
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def _listening() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.take, "127.0.0.1")
    listener.port = server.sockets[0].getsockname()[1]
    yield listener
    server.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with _listening() as one:
        yield one


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The system's resolver, for names that only this test has; and no connection leaves this machine."""
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name in RESOLVED:
            return [
                (
                    socket.AF_INET6 if ":" in one else socket.AF_INET,
                    socket.SOCK_STREAM,
                    6,
                    "",
                    (one, port, 0, 0) if ":" in one else (one, port),
                )
                for one in RESOLVED[name]
            ]
        return real(host, port, family, type, proto, flags)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
