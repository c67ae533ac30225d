"""`up` as a process that is ended by SIGKILL at a git command of a write over REST."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx

from tests.scenario.cli import Running, serving, tenantry
from tests.scenario.failing_git import FailingGit
from tests.support.patience import DEADLINE_S

Write = Callable[[httpx.Client], Any]


def running(source: str, folder: Path, git: FailingGit, **variables: str) -> AbstractContextManager[Running]:
    """`up` with that git."""
    path = f"{git.folder}:{os.environ['PATH']}"
    return serving("up", source, "--listen", "127.0.0.1:0", cwd=folder, PATH=path, **variables)


def struck(up: Running, folder: Path, git: FailingGit, at: int, mode: str, write: Write) -> None:
    """Makes the write and is struck at that command; ends it otherwise."""
    with client(up.url, folder) as http:
        git.arm(at, mode)
        try:
            write(http)
        except httpx.TransportError:
            up.process.wait(DEADLINE_S)
        git.disarm()
    if up.process.poll() is None:
        up.end(signal.SIGKILL)


def client(url: str, folder: Path) -> httpx.Client:
    token = tenantry("token", cwd=folder).stdout.strip()
    return httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=DEADLINE_S)


def edit(http: httpx.Client) -> None:
    environment = http.get("/environments").json()[0]
    http.put(f"/environments/{environment['id']}", json={"name": "Edited"})


def delete(http: httpx.Client) -> None:
    tenant = http.get("/tenants").json()[0]
    http.delete(f"/tenants/{tenant['id']}")
