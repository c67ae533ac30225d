"""A proxy that knows CONNECT and nothing else, as a program: `python connect_proxy.py '{"name:443": 40123}'`.

It prints its port, then the target of each request. Targets that it was not given are refused: its look-up of names.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress


async def main(targets: dict[str, int]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, target, _ = head.split("\r\n", 1)[0].split(" ")
            print(f"{method} {target}", flush=True)
            if method != "CONNECT" or target not in targets:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            else:
                inner, outer = await asyncio.open_connection("127.0.0.1", targets[target])
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await asyncio.gather(_copy(reader, outer), _copy(inner, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
