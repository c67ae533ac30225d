"""The API server of a cluster without a kubelet, as one with a kubelet would be seen: commands in the pods that a node plays."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.cluster.control_plane import Cluster
from tests.cluster.engines import Node
from tests.cluster.threads import Beside, beside

PROTOCOL = "v5.channel.k8s.io"
CHUNK = 32 << 10


class ExecServer(Beside):
    """Passes everything on to the API server but commands in pods, which it runs. kubeconfig: the cluster's, by this server.

    cut_after: how many bytes of input or output pass before the next connection breaks.
    """

    def __init__(self, cluster: Cluster, node: Node, folder: Path) -> None:
        super().__init__()
        self._config = yaml.safe_load(cluster.kubeconfig.read_text())
        self._node = node
        self.kubeconfig = folder / "kubeconfig-exec"
        self.cut_after: int | None = None
        self.commands: list[list[str]] = []

    async def serve(self) -> None:
        target = self._config["clusters"][0]["cluster"]
        self._server = target["server"]
        tls = ssl.create_default_context(cafile=target["certificate-authority"])
        application = web.Application(client_max_size=1 << 26)
        application.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", self._exec)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as self._session:
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            target["server"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self.kubeconfig.write_text(yaml.safe_dump(self._config))
            self.up.set()
            await self.ends.wait()
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        kept = ("Authorization", "Accept", "Content-Type")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        url = f"{self._server}{request.rel_url}"
        async with self._session.request(request.method, url, headers=headers, data=await request.read()) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers={"Content-Type": answer.headers["Content-Type"]}
            )

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        """As the API server: who has no token is refused there, too."""
        played = self._node.pod(request.match_info["namespace"])
        if request.headers.get("Authorization", "") == "" or played is None:
            return web.json_response({"message": "no"}, status=403 if played else 404)
        if request.headers["Accept"] != "*/*":
            return web.json_response({"message": "not acceptable"}, status=406)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        words = request.query.getall("command")
        begin = words.index("tenantry")
        assert words[:begin] in ([], ["env", *words[1:begin]])
        settings, arguments = dict(word.split("=") for word in words[1:begin]), words[begin + 1 :]
        self.commands.append(arguments)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        process = await self._node.spawn(request.match_info["namespace"], played, arguments, settings, **pipes)
        line = _Line(socket, self.cut_after, request)
        self.cut_after = None
        assert process.stdout is not None
        assert process.stderr is not None
        giving = asyncio.create_task(line.give(process))
        with suppress(ConnectionError):
            await asyncio.gather(line.tell(1, process.stdout), line.tell(2, process.stderr))
        await _ended(process, giving)
        if not socket.closed:
            await line.end(process.returncode or 0)
        return socket


class _Line:
    """One connection, which may break."""

    def __init__(self, socket: web.WebSocketResponse, cut_after: int | None, request: web.Request) -> None:
        self._socket, self._left, self._request = socket, cut_after, request

    async def tell(self, channel: int, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK):
            self._count(len(chunk))
            await self._socket.send_bytes(bytes((channel,)) + chunk)

    async def give(self, process: asyncio.subprocess.Process) -> None:
        """The bytes that come in; their end, and that of the connection, is the end of the command's input."""
        assert process.stdin is not None
        with suppress(ConnectionError):
            async for message in self._socket:
                if message.data == b"\xff\x00":
                    break
                self._count(len(message.data))
                process.stdin.write(message.data[1:])
                await process.stdin.drain()
        process.stdin.close()

    async def end(self, code: int) -> None:
        causes = {"details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
        status = {"status": "Success"} if code == 0 else {"status": "Failure", "reason": "NonZeroExitCode", **causes}
        with suppress(ConnectionError):
            await self._socket.send_bytes(b"\x03" + json.dumps(status).encode())
            await self._socket.close()

    def _count(self, size: int) -> None:
        if self._left is None:
            return
        self._left -= size
        if self._left <= 0:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError


async def _ended(process: asyncio.subprocess.Process, giving: asyncio.Task[None]) -> None:
    if process.returncode is None:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 5)
        if process.returncode is None:
            process.kill()
            await process.wait()
    giving.cancel()
    with suppress(asyncio.CancelledError):
        await giving


@contextmanager
def exec_server(cluster: Cluster, node: Node, folder: Path) -> Iterator[ExecServer]:
    """One that serves until the end of the block."""
    with beside(ExecServer(cluster, node, folder), "exec", within_s=30) as server:
        yield server
