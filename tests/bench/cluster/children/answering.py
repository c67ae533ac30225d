"""One engine that plays those of all Environments: each has the same app, user and provider, and the operator changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from tests.cluster.threads import Beside, beside

UP_S = 60.0


class Engines(Beside):
    """A proxy of HTTP that answers for every engine. answers: the body of each path; asked: how often each was read."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        super().__init__()
        self._answers = answers
        self.asked: Counter[str] = Counter()
        self.proxy = ""

    async def serve(self) -> None:
        runner = web.ServerRunner(web.Server(self._answer, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.proxy = "http://{}:{}".format(*runner.addresses[0])
        self.up.set()
        await self.ends.wait()
        await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = f"{request.method} {request.path}"
        self.asked[asked] += 1
        held = self._answers.get(request.path) if request.method == "GET" else None
        return web.json_response(held, status=404 if held is None else 200)

    def check(self) -> None:
        """Raises RuntimeError for requests that a Ready platform at rest does not make, and where it made none."""
        surprises = [asked for asked in self.asked if asked.removeprefix("GET ") not in self._answers]
        if surprises or not self.asked:
            raise RuntimeError(f"engines were asked for {surprises or 'nothing'}")


@contextmanager
def engines(answers: Mapping[str, Any]) -> Iterator[Engines]:
    """Serve them until the end of the block."""
    with beside(Engines(answers), "engines", UP_S) as played:
        yield played
