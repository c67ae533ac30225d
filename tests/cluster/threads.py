"""Servers on an event loop of their own, in a thread beside the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar


class Beside:
    """Its subclass's `serve` runs until `stop`: it sets `up` once it serves, and then waits for `ends`."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.ends = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        """Until `stop`; in a thread of its own."""
        asyncio.run(self._run())

    def stop(self) -> None:
        """From another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.ends.set)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.serve()


T = TypeVar("T", bound=Beside)


@contextmanager
def beside(server: T, name: str, within_s: float) -> Iterator[T]:
    """Serves until the end of the block. within_s: how long it may take to start."""
    thread = threading.Thread(target=server.run, name=name)
    thread.start()
    try:
        assert server.up.wait(within_s)
        yield server
    finally:
        server.stop()
        thread.join()
