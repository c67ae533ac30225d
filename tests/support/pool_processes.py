"""Replicas of a pool on a server as processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Self

from tenantry.adapters.keys import KeyRing
from tests.scenario.cli import Running, serving
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import POOL


@dataclass
class TwoProcesses:
    """Two replicas as processes. Whoever has none is at the other one, as behind a Service."""

    folder: Path
    server: PoolServerKit
    keys: KeyRing
    stack: ExitStack
    running: dict[str, Running] = field(default_factory=dict)
    starts: Iterator[int] = field(default_factory=count)

    @classmethod
    def started(cls, folder: Path, server: PoolServerKit, stack: ExitStack) -> Self:
        """Both of them, `one` and `two`. stack: ends them."""
        processes = cls(folder, server, KeyRing(folder / "keys", "tenantry"), stack)
        for name in ("one", "two"):
            processes.start(name)
        return processes

    def start(self, name: str) -> None:
        """In an empty folder, as a new pod has it."""
        folder = self.folder / f"{name}-{next(self.starts)}"
        folder.mkdir()
        for file, content in (("jwks.json", json.dumps(self.keys.jwks())), ("url", self.server.url)):
            (folder / file).write_text(content)
        about = {"POOL": POOL, "FACADE_URL": "http://api", "JWKS": str(folder / "jwks.json"), "DATABASE_URL": str(folder / "url")}
        settings = {f"TENANTRY_MANAGED__{key}": value for key, value in about.items()}
        command = ("pool", "--data", "data", "--listen", "127.0.0.1:0")
        self.running[name] = self.stack.enter_context(serving(*command, cwd=folder, **settings))

    def kill(self, name: str) -> None:
        running = self.running.pop(name)
        running.process.kill()
        running.process.wait()

    def urls(self) -> list[str]:
        return [running.url.rstrip("/") for running in self.running.values()]
